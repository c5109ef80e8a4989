"""The excess cost of a run, against a sum over the JSON of its trace."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from trace_cases import RECORD

from cqels_opt.trace.history import histories
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.records import Delta, InHindsight, TraceRecord, parse_line


def records(seed: int, unit: str = "s") -> list[TraceRecord]:
    drawn = random.Random(seed)
    found = []
    for number in range(50):
        deltas = []
        for source in ("w", "v"):
            least = drawn.uniform(0.1, 1.0)
            seen = InHindsight(least * drawn.choice([1.0, 1.0, 3.0]), least) if drawn.random() < 0.7 else None
            deltas.append(Delta(source, f"{source} » a[?x]", 1.0, hindsight=seen))
        found.append(replace(RECORD, batch=number, deltas=tuple(deltas), cost_unit=unit))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_excess_of_a_run_is_the_sum_over_its_records(seed: int) -> None:
    lines = [record.line() for record in records(seed)]
    seen = [d["hindsight"] for line in lines for d in json.loads(line)["deltas"] if "hindsight" in d]
    (history,) = histories(record for line in lines if (record := parse_line(line.encode(), "t:1")))
    excess, cost = sum(h["cost"] - h["least"] for h in seen), sum(h["cost"] for h in seen)
    assert (history.excess.choices, history.excess.excess) == (len(seen), pytest.approx(excess))
    assert f", {100 * excess / cost:.1f} % of the plans' cost." in history.headline[-1]
    page = trace_page([record for line in lines if (record := parse_line(line.encode(), "t:1"))], "t")
    assert history.headline[-1] in page


def test_a_cost_without_unit_is_a_share() -> None:
    (history,) = histories(records(1, ""))
    share = f"{100 * history.excess.excess / history.excess.cost:.1f} %"
    assert history.excess.sentence("").endswith(f"would have saved {share} of the plans' cost.")


def test_a_trace_of_an_earlier_version_has_no_such_sentence() -> None:
    (history,) = histories([RECORD])
    assert history.excess.choices == 0
    assert not any("hindsight" in sentence for sentence in history.headline)
