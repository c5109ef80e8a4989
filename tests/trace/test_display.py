"""Plans and runs as HTML for a notebook: contents, and escaping of all text."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from cqels_opt.errors import InputError
from cqels_opt.trace import display
from cqels_opt.trace.records import Delta, Milliseconds, Moved, TraceRecord

HOSTILE = "<script>alert(1)</script>"


class Texts(HTMLParser):
    """The elements and texts of HTML, whose elements must be balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def explained(name: str = "now", observed: float | None = 4_000.0) -> str:
    step = {"op": "probe", "relation": name, "on": ["x"], "estimated": 100.0, "observed": observed, "by": "broadcast"}
    other = {"plan": f"b » {name}[?x]", "cost": 0.5}
    delta = {"source": name, "plan": f"{name} » b[?x]", "cost": 0.25, "operators": [step], "runner_up": other, "retained": 7}
    return json.dumps({"deltas": [delta]})


def test_a_plan() -> None:
    found = Texts(display.plans("q1", explained()))
    assert found.tags == {"div", "p", "b", "code", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ol", "li"}
    assert {"q1", "now » b[?x]", ", cost 0.25", "broadcast", "?x", "100", "4,000", "40.00", "7 alternatives retained"} <= {
        *found.texts
    }
    assert "-" in Texts(display.plans("q1", explained(observed=None))).texts
    in_seconds = json.dumps({**json.loads(explained()), "constants": {"source": "measured"}})
    assert ", cost 250 ms" in Texts(display.plans("q1", in_seconds)).texts


def test_a_run() -> None:
    moved = Moved("join_size(now, b, ?x)", 10.0, 25_000.0)
    delta = Delta("now", "now » b[?x]", switched=True, reason=(moved,))
    record = TraceRecord(
        41, "q1", (0, 5), 1_387_000_000_000, 1_200, windows={"now": 900}, deltas=(delta,), ms=Milliseconds(execute=250), jobs=3
    )
    totals = {"batches": 42, "elements": 99_000, "answers": 7, "late": 3}
    text = "".join(Texts(display.live("q1", record, 5, totals, None, explained())).texts)
    for part in (
        "42 batches, 99,000 elements, 7 answers, 3 late; 5 plan switches.",
        "batch 41: 1,200 elements in 250 ms",
        "3 Spark jobs",
        "answers are final up to 2013-12-14 05:46:40",
        "windows: now 900",
        "now took another plan, as rows of now joined with b on ?x went from 10 to 25,000",
        "now » b[?x]",
    ):
        assert part in text


def test_one_is_singular_and_what_was_not_observed_is_unknown() -> None:
    delta = Delta("now", "now » b[?x]", switched=True, reason=(Moved("selectivity(?x > 3)", None, 0.25),))
    record = TraceRecord(0, "q1", None, None, 1, deltas=(delta,), jobs=1, failed="2,404 rows of answers")
    text = "".join(Texts(display.live("q1", record, 1, {"batches": 1, "elements": 1, "answers": 1})).texts)
    assert "1 batch, 1 element, 1 answer; 1 plan switch." in text
    assert "batch 0: 1 element in 0 ms; 1 Spark job" in text
    assert "as share of rows that pass ?x > 3 went from unknown to 25 %" in text
    assert "failed: 2,404 rows of answers" in text


def test_a_run_that_has_not_begun_or_is_over() -> None:
    text = "".join(Texts(display.live("q1", None, 0, {}, "q1 failed at batch 3")).texts)
    assert "No micro-batch has been done yet." in text
    assert "Over: q1 failed at batch 3" in text


def test_text_is_never_markup() -> None:
    delta = Delta(HOSTILE, HOSTILE, switched=True, reason=(Moved(HOSTILE, None, 1.0),))
    record = TraceRecord(0, HOSTILE, None, None, 1, windows={HOSTILE: 1}, deltas=(delta,), fallback=HOSTILE)
    for html in (display.plans(HOSTILE, explained(HOSTILE)), display.live(HOSTILE, record, 1, {}, HOSTILE, explained(HOSTILE))):
        assert "script" not in Texts(html).tags


def test_what_is_watched_is_shown_again_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    class Run:
        def await_termination(self, timeout: float | None = None) -> bool:
            steps.append(f"waited {timeout}")
            return len(steps) >= 4

    class Handle:
        def update(self, what: object) -> None:
            steps.append("shown again")

    def show(what: object, display_id: bool) -> Handle | None:
        steps.append("shown")
        return Handle() if display_id and len(steps) == 1 else None

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=show))
    display.watch(Run(), 0.5)
    assert steps == ["shown", "waited 0.5", "shown again", "waited 0.5", "shown again"]
    with pytest.raises(InputError, match="shows a run in a notebook"):
        display.watch(Run(), 0.5)  # no notebook
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(InputError, match=r"pip install 'cqels-opt\[notebooks\]'"):
        display.watch(Run(), 0.5)
