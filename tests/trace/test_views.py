"""The views of a trace against goldens. ``UPDATE_GOLDENS=1 make test TESTS=tests/trace`` rewrites them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cqels_opt.trace.figures import clock, duration, figure, plural
from cqels_opt.trace.history import MOST_NOTES, Histories, histories
from cqels_opt.trace.picture import Picture
from cqels_opt.trace.records import Called, Delta, Milliseconds, OperatorRecord, RunnerUp, SubResults, TraceRecord, read_trace
from cqels_opt.trace.terminal import show_trace

HERE = Path(__file__).parent
FIXTURE = HERE / "q2.jsonl"


def terminal(records: list[TraceRecord], width: int = 80) -> str:
    out = io.StringIO()
    show_trace(records, Console(file=out, width=width))
    return out.getvalue()


def page_data(records: list[TraceRecord]) -> str:
    picture = Picture()
    picture.add(records)
    return json.dumps(picture.to_json("q2.jsonl"), indent=1, ensure_ascii=False) + "\n"


def test_a_trace_without_stream_time() -> None:
    """That of a join of DataFrames without windows."""
    record = replace(next(iter(read_trace(FIXTURE))), time_range=None, frontier=None)
    assert "stream time" not in terminal([record]).partition("slowest batches")[0]


@pytest.mark.parametrize(("golden", "render"), [("q2.txt", terminal), ("q2.json", page_data)])
def test_goldens(golden: str, render: Callable[[list[TraceRecord]], str]) -> None:
    text = render(list(read_trace(FIXTURE)))
    file = HERE / "goldens" / golden
    if os.environ.get("UPDATE_GOLDENS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in terminal(list(read_trace(FIXTURE)), width).splitlines()) <= width


def test_a_pipe_gets_no_colours() -> None:
    assert "\x1b" not in terminal(list(read_trace(FIXTURE)))


def test_square_brackets_of_plans_survive() -> None:
    assert "loc_name[?loc]" in terminal(list(read_trace(FIXTURE)))


def test_an_empty_trace_says_so() -> None:
    assert "empty" in terminal([])


RECORD = TraceRecord(0, "q", (1000, 2000), 1999, 10, deltas=(Delta("w", "w » a[?x]", 1.0),))


def test_why_a_query_has_failed_is_shown() -> None:
    records = [RECORD, replace(RECORD, batch=1, failed="2,404 rows of answers")]
    assert "  failed, batch 1, 1970-01-01 00:00:02: 2,404 rows of answers\n" in terminal(records)
    assert json.loads(page_data(records))["queries"][0]["failed"] == ["batch 1, 1970-01-01 00:00:02: 2,404 rows of answers"]


def test_the_newest_notices_are_shown_and_all_are_counted() -> None:
    records = [replace(RECORD, batch=number, notices=("rejected: a", "rejected: b")) for number in range(40)]
    shown = terminal(records).splitlines()
    assert [line for line in shown if "rejected: b" in line] == [f"  batch {number}: rejected: b" for number in range(30, 40)]
    assert "  60 earlier notices not shown" in shown
    (query,) = json.loads(page_data(records))["queries"]
    assert query["noted"] == 80 and query["notes"][-1] == "batch 39: rejected: b" and len(query["notes"]) == MOST_NOTES


def test_the_newest_switches_are_shown() -> None:
    deltas = [(Delta("w", f"w » {'ab'[number % 2]}[?x]", 1.0, switched=number > 0),) for number in range(40)]
    shown = terminal([replace(RECORD, batch=number, deltas=found) for number, found in enumerate(deltas)]).splitlines()
    at = shown.index("39 plan switches")
    assert shown[at + 1] == "  19 earlier switches not shown" and "batch 20, " in shown[at + 2] and "batch 39, " in shown[at + 21]


def test_times_of_a_run_with_other_queries_are_of_all_of_them() -> None:
    both = [RECORD, replace(RECORD, query="r")]
    assert "0 ms of all queries in all" in terminal(both) and "of all queries" not in terminal(both[:1])
    for records, alone in ((both, [False, False]), (both[:1], [True])):
        assert [query["alone"] for query in json.loads(page_data(records))["queries"]] == alone


def test_a_run_without_stream_time_has_no_line_about_it() -> None:
    """Joins of DataFrames without windows have none."""
    assert "stream time 1970-01-01 00:00:01 to 1970-01-01 00:00:02 UTC" in terminal([RECORD])
    assert "stream time -" not in terminal([replace(RECORD, time_range=None, frontier=None)])


def test_a_plan_that_comes_back_keeps_its_letter_and_its_time() -> None:
    plans = ["w » a[?x]", "w » b[?x]", "w » a[?x]"]
    records = [
        replace(RECORD, batch=number, deltas=(Delta("w", plan, switched=number > 0),), ms=Milliseconds(execute=10.0))
        for number, plan in enumerate(plans)
    ]
    (history,) = histories(records)
    (source,) = history.sources
    assert [(use.letter, use.batches, use.ms) for use in source.plans] == [("A", 2, 20.0), ("B", 1, 10.0)]
    assert [(reign.first, reign.last, source.letter(reign.plan)) for reign in source.reigns] == [
        (0, 0, "A"),
        (1, 1, "B"),
        (2, 2, "A"),
    ]
    assert [(switch.batch, switch.before, switch.after) for switch in history.switches] == [
        (1, "w » a[?x]", "w » b[?x]"),
        (2, "w » b[?x]", "w » a[?x]"),
    ]


def test_a_switch_is_compared_with_the_plan_before_until_the_next_one() -> None:
    """Three switches: one saves, one does not, and one has no plan before it that has a cost."""
    a, b = "w » a[?x]", "w » b[?x]"
    saves = [
        Delta("w", b, cost, None, first, former=(RunnerUp(a, 30.0),), regret=cost - 30.0)
        for cost, first in ((20.0, True), (10.0, False))
    ]
    loses = [Delta("w", a, 25.0, None, True, former=(RunnerUp(b, 20.0),), regret=5.0)]
    unknown = [Delta("w", b, 25.0, None, True)]
    deltas = [Delta("w", a, 30.0), *saves, *loses, *unknown]
    records = [replace(RECORD, batch=number, deltas=(delta,)) for number, delta in enumerate(deltas)]
    (history,) = histories(records)
    first, second, third = (switch.since for switch in history.switches)
    assert (first.batches, first.cost, first.saved, first.lost, first.gained) == (2, 30.0, 30.0, 0.0, 1)
    assert (second.batches, second.cost, second.saved, second.lost, second.gained) == (1, 25.0, 0.0, 5.0, 0)
    assert third.batches == 0
    assert (first.outcome, second.outcome) == (("saved", 0.5), ("regret", 0.2))
    whole = history.regret
    assert (whole.switches, whole.gained, whole.cost, whole.share) == (2, 1, 55.0, 5.0 / 55.0)
    shown = " ".join(terminal(records).split())
    assert "3 plan switches: 1 of 2 saved, regret 9.1 %" in shown
    assert "saved 50.0 % in 2 batches" in shown
    assert "regret 20.0 % in 1 batch" in shown
    switches = json.loads(page_data(records))["queries"][0]["sources"][0]["switches"]
    assert [(s["since"]["outcome"], s["since"]["share"]) for s in switches[:2]] == [first.outcome, second.outcome], (
        "as in the terminal"
    )
    newest = Histories(newest=1)
    for record in records:
        newest.add(record)
    assert newest.of("q").regret == whole, "switches that are no longer kept count as well"


def test_the_first_plan_is_no_switch() -> None:
    (history,) = histories([RECORD, replace(RECORD, batch=1)])
    assert history.switches == ()


def test_queries_of_one_trace_stay_apart() -> None:
    found = histories([RECORD, replace(RECORD, query="other"), replace(RECORD, batch=1)])
    assert [(history.query, history.batches) for history in found] == [("q", 2), ("other", 1)]
    assert terminal([RECORD, replace(RECORD, query="other")]).count("query ") == 2


def test_q_errors_are_known_only_where_both_sides_are() -> None:
    operators = tuple(
        OperatorRecord("probe", "a", ("x",), estimated, observed)
        for estimated, observed in [(None, 3), (4.0, None), (2.0, 8), (0.0, 0)]
    )
    (history,) = histories([replace(RECORD, deltas=(Delta("w", "w » a[?x]", operators=operators),))])
    (estimates,) = history.estimates
    assert (estimates.known, estimates.median, estimates.greatest) == (2, 2.5, 4.0)


def test_changes_of_sub_results_are_in_both_views() -> None:
    came = SubResults("b0", ("near", "knows#1", "knows#2"), ("near", "knows#1+knows#2"), 0.25, 0.125, 3.0)
    failed = SubResults("b0", came.now, came.now, failed="a+b: OSError: <disk full>")
    records = [replace(RECORD, sub_results=(came,)), replace(RECORD, batch=1, sub_results=(failed,))]
    words = " ".join(terminal(records).split())
    assert "sub-results, batch 0, 1970-01-01 00:00:02, block b0: knows#1, knows#2 -> knows#1+knows#2, cost 0.25 -> 0.125" in words
    assert (
        "sub-results, batch 1, 1970-01-01 00:00:02, block b0: a sub-result could not be made, a+b: OSError: <disk full>" in words
    )
    (data,) = json.loads(page_data(records))["queries"]
    assert [line.split(", ", 2)[2] for line in data["sub_results"]] == [
        "block b0: knows#1, knows#2 -> knows#1+knows#2, cost 0.25 -> 0.125",
        "block b0: a sub-result could not be made, a+b: OSError: <disk full>",
    ]


def test_calls_are_in_both_views_together() -> None:
    record = replace(RECORD, calls=(Called("rspu:add", 100, 40, 40, 10, 1.5), Called("rspu:lessThan", 7, 7, 0, 0, 0.5)))
    words = " ".join(terminal([record, record]).split())
    assert "calls of rspu:add: 200 rows, 80 distinct, 20 of 80 from the cache, 3 ms" in words
    assert "calls of rspu:lessThan: 14 rows, 14 distinct, 1 ms" in words
    (data,) = json.loads(page_data([record, record]))["queries"]
    assert data["calls"] == [
        {"call": "rspu:add", "rows": 200, "distinct": 80, "looked_up": 80, "hits": 20, "ms": 3.0},
        {"call": "rspu:lessThan", "rows": 14, "distinct": 14, "looked_up": 0, "hits": 0, "ms": 1.0},
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (clock(None), "-"),
        (clock(0), "1970-01-01 00:00:00"),
        (clock(1198800000007), "2007-12-28 00:00:00.007"),
        (clock(10**18), f"{10**18} ms"),
        (duration(85.4), "85 ms"),
        (duration(2400), "2.4 s"),
        (duration(59_960), "1 min 00 s"),
        (duration(185_000), "3 min 05 s"),
        (duration(0.25), "0.25 ms"),
        (duration(0.0321), "32.1 µs"),
        (duration(3.2e-5), "0.032 µs"),
        (figure(None), "-"),
        (figure(3.14159), "3.14"),
        (figure(1234567.5), "1,234,568"),
        (plural(1, "switch"), "1 switch"),
        (plural(2000, "batch"), "2,000 batches"),
        (plural(0, "element"), "0 elements"),
    ],
)
def test_figures_for_people(written: str, expected: str) -> None:
    assert written == expected
