"""What adapting saved over the first plan, against an independent sum over the JSON of a trace."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trace_cases import RECORD

from cqels_opt.trace.history import Histories, QueryHistory, histories
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.picture import Picture
from cqels_opt.trace.records import (
    Delta,
    InHindsight,
    Milliseconds,
    OperatorRecord,
    RunnerUp,
    TraceRecord,
    parse_line,
    read_trace,
)
from cqels_opt.trace.savings import Savings

FIXTURE = Path(__file__).parent / "q2.jsonl"
PLANS = [f"w » {a}[?x] » {b}[?x] » {c}[?x]" for a, b, c in ("abc", "acb", "bac", "bca", "cab", "cba")]


def summed(lines: list[str]) -> tuple[float, float, int, int]:
    """Saved, the cost of the first plans, compared and all choices: from the raw JSON, along docs/trace.md and nothing else."""
    first: dict[str, str] = {}
    saved = whole = 0.0
    compared = choices = 0
    for line in lines:
        for delta in json.loads(line)["deltas"]:
            choices += 1
            if delta.get("first"):
                first[delta["source"]] = delta["plan"]
            plan = first.setdefault(delta["source"], delta["plan"])
            priced = {other["plan"]: other["cost"] for other in [*delta.get("former", []), *filter(None, [delta["runner_up"]])]}
            own, seen = delta["cost"], delta.get("hindsight", {})
            if "first" in seen:
                own, cost = seen["cost"], seen["first"]
            elif delta["plan"] == plan or {operator["observed"] for operator in delta["operators"]} == {0}:
                cost = own
            elif "regret" in delta and delta["former"][0]["plan"] == plan:
                cost = own - delta["regret"]
            elif plan in priced:
                cost = priced[plan]
            else:
                continue
            compared += 1
            whole += cost
            saved += cost - own
    return saved, whole, compared, choices


def wandering(batches: int, seed: int, formers: int = 4) -> list[TraceRecord]:
    """Two sources whose plans change at random; some switches are a mistake, some first plans are not priced any more, and in some traces
    the first plans are those of a later batch. Some batches have no rows, others a hindsight."""
    drawn = random.Random(seed)
    late = drawn.choice([0, 0, 2])
    current, former = {"w": 0, "v": 0}, {"w": list[int](), "v": list[int]()}
    found = []
    for number in range(batches):
        deltas = []
        for source in current:
            costs, before = [drawn.uniform(0.5, 2.0) for _ in PLANS], current[source]
            if number and drawn.random() < 0.4:
                current[source] = drawn.choice([place for place in range(len(PLANS)) if place != before])
                former[source] = [before, *(p for p in former[source] if p not in (before, current[source]))][:formers]
            now, earlier = current[source], former[source]
            regret = costs[now] - costs[earlier[0]] + drawn.uniform(-0.1, 0.1) if earlier else None
            others = tuple(RunnerUp(PLANS[p], costs[p]) for p in earlier)
            chosen = Delta(
                source, PLANS[now], costs[now], None, now != before, former=others, regret=regret, first=number == late
            )
            if (kind := drawn.random()) < 0.2:
                chosen = replace(chosen, operators=(OperatorRecord("scan", source, (), 0.5, 0),))
            elif kind < 0.6:
                known = None if number < late else drawn.uniform(0.5, 2.0)
                chosen = replace(chosen, hindsight=InHindsight(drawn.uniform(0.5, 2.0), 0.5, known))
            deltas.append(chosen)
        ms = Milliseconds(optimize=1.0, execute=10.0)
        found.append(replace(RECORD, batch=number, deltas=tuple(deltas), ms=ms, cost_unit="s"))
    return found


AMOUNT = r"(?:[\d.]+ (?:min|ms|s)(?: |\b))+"
UNITS = {"min": 60.0, "s": 1.0, "ms": 0.001}


def in_seconds(words: str) -> float:
    """``7 min 33 s`` as a number."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) (min|ms|s)", words))


def history_of(records: list[TraceRecord]) -> QueryHistory:
    (history,) = histories(records)
    return history


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("formers", [1, 4])
def test_the_headline_is_the_sum_over_the_raw_records(seed: int, formers: int) -> None:
    lines = [record.line() for record in wandering(200, seed, formers)]
    saved, whole, compared, choices = summed(lines)
    parsed = [record for line in lines if (record := parse_line(line.encode(), "t:1"))]
    history = history_of(parsed)
    found = history.savings
    assert (found.compared, found.choices) == (compared, choices)
    assert [found.saved, found.first] == pytest.approx([saved, whole])
    (text, *_), told = history.headline, [in_seconds(words) for words in re.findall(AMOUNT, history.headline[0])]
    planning = 0.001 * len(lines)
    if saved > planning:
        begin, amounts = "Adapting saved an estimated", [saved, whole]
    elif saved > 0:
        begin, amounts = "Adapting did not pay off: ", [saved, whole, planning]
    else:
        begin, amounts = "Adapting saved nothing: ", [-saved]
    assert text.startswith(begin)
    assert told == [pytest.approx(amount, rel=0.06) for amount in amounts]
    assert any("could not be compared" in more for more in history.headline) == (compared < choices)
    (data,) = re.findall(r'id="data">(.*?)</script>', trace_page(parsed, "t"))
    assert json.loads(data)["queries"][0]["savings"]["saved"] == pytest.approx(saved), "the page has the same sum"


def test_the_headline_of_a_trace_of_an_earlier_version() -> None:
    """It has neither regrets nor a unit: a share of the costs."""
    saved, whole, compared, choices = summed(FIXTURE.read_text().splitlines())
    history = history_of(list(read_trace(FIXTURE)))
    assert [history.savings.saved, history.savings.first] == pytest.approx([saved, whole])
    assert history.headline[0] == f"Adapting saved an estimated {100 * saved / whole:.0f} % of the cost of the first plan."
    assert "The trace does not have its costs in seconds." in history.headline
    assert compared == choices == history.savings.compared


A, B = "w » a[?x] » b[?y]", "w » b[?y] » a[?x]"


def run(*deltas: Delta, planning: float = 1.0, query: str = "q") -> list[TraceRecord]:
    ms = Milliseconds(optimize=planning / len(deltas))
    return [replace(RECORD, query=query, batch=n, deltas=(delta,), ms=ms, cost_unit="s") for n, delta in enumerate(deltas)]


def switched(cost: float, former: float | None) -> Delta:
    regret = None if former is None else cost - former
    return Delta("w", B, cost, None, True, former=(RunnerUp(A, former),), regret=regret)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (run(Delta("w", A, 2.0), switched(3.0, 8.0)), "Adapting saved an estimated 5.0 s of 10.0 s over the first plan (50 %)."),
        (
            run(Delta("w", A, 0.02), switched(0.03, 0.08), planning=316.0),
            "Adapting did not pay off: it saved an estimated 50 ms of 100 ms over the first plan (50 %), and planning took 316 ms.",
        ),
        (
            run(
                Delta("w", A, 0.02),
                replace(switched(0.03, 0.08), operators=(OperatorRecord("scan", "w", (), 1.0, 1, None, 300.0),)),
                planning=316.0,
            ),
            "Adapting saved an estimated 50 ms of 100 ms over the first plan (50 %).",
        ),
        (
            run(Delta("w", A, 2.0), switched(8.0, 5.0)),
            "Adapting saved nothing: the plans that ran cost an estimated 3.0 s (30 %) more than the first plan.",
        ),
        (
            run(Delta("w", A, 2.0), switched(5.0, 5.0)),
            "Adapting saved nothing: the plans that ran cost as much as the first plan.",
        ),
        (
            run(Delta("w", A, 0.001), switched(0.001, 9.999)),
            "Adapting saved an estimated 10.0 s of 10.0 s over the first plan (more than 99.9 %).",
        ),
        (run(Delta("w", A, 2.0)), "No plan changed: every delta source kept its first plan, so adapting saved nothing."),
        (run(Delta("w", "spark")), "The trace has no costs of plans: what adapting saved is unknown."),
        ([replace(RECORD, deltas=())], "Nothing is joined: there is no plan to adapt."),
    ],
)
def test_headlines(records: list[TraceRecord], expected: str) -> None:
    assert history_of(records).headline[0] == expected


def test_a_first_plan_without_a_cost_is_left_out() -> None:
    history = history_of(run(Delta("w", A, 2.0), switched(3.0, None)))
    assert (history.savings.choices, history.savings.compared, history.savings.first) == (2, 1, 2.0)
    assert "1 choice of 2 could not be compared and are left out." in history.headline


def test_the_time_of_planning_is_that_of_all_queries() -> None:
    """The phases of a batch are the same for all its queries: none of them alone is charged for it."""
    deltas = Delta("w", A, 0.02), switched(0.03, 0.08)
    first, _ = histories([*run(*deltas, planning=316.0), *run(*deltas, planning=316.0, query="r")])
    assert first.headline[:2] == (
        "Adapting saved an estimated 50 ms of 100 ms over the first plan (50 %).",
        "Planning of all queries took 316 ms.",
    )


def test_measured_joins_are_set_against_the_model() -> None:
    ran = (OperatorRecord("scan", "w", (), 1.0, 1, ms=500.0), OperatorRecord("probe", "a", ("x",), 1.0, 1, ms=2500.0))
    history = history_of(run(Delta("w", A, 2.0), replace(switched(3.0, 8.0), operators=ran)))
    assert history.savings == Savings(2, 2, 5.0, 5.0, 3000.0, 3.0)
    assert "The joins took 3.0 s where the model expected 3.0 s (1 times)." in history.headline


def test_a_running_job_counts_batches_whose_switches_it_dropped() -> None:
    records = wandering(200, 3)
    kept = Histories(newest=2)
    for record in records:
        kept.add(record)
    assert kept.of("q").savings == history_of(records).savings


def test_the_chart_of_savings_adds_up() -> None:
    records = wandering(100, 5)
    picture = Picture()
    picture.add(records)
    values: dict[str, Any] = picture.query("q")["batch"]["saved"]
    assert sum(filter(None, values["mean"])) == pytest.approx(history_of(records).savings.saved, abs=1e-3)


def test_a_page_of_two_traces_has_both() -> None:
    page = trace_page(wandering(20, 1), "a.jsonl", (wandering(30, 2), "b.jsonl"))
    (text,) = re.findall(r'id="data">(.*?)</script>', page)
    data = json.loads(text)
    other = data["compare"]
    assert (data["title"], data["queries"][0]["batches"], other["title"], other["queries"][0]["batches"]) == (
        "a.jsonl",
        20,
        "b.jsonl",
        30,
    )


def test_the_list_of_queries_of_a_running_job() -> None:
    picture = Picture()
    picture.add([replace(record, query=name) for record in wandering(20, 1) for name in ("a", "b")])
    first, second = picture.index()
    assert (first["query"], second["query"], first["batches"], first["ms"]) == ("a", "b", 20, 220.0)
    assert first["headline"] == picture.query("a")["headline"][0]


def test_text_and_unit_are_those_of_the_records() -> None:
    records = [replace(RECORD, text="SELECT ?x", cost_unit="s"), replace(RECORD, batch=1)]
    assert [json.loads(record.line()).get("text") for record in records] == ["SELECT ?x", None]
    picture = Picture()
    picture.add(records)
    found = picture.query("q")
    assert (found["text"], found["savings"]["unit"]) == ("SELECT ?x", "s")
