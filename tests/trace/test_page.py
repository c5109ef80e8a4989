"""The page: its data, escaping of text, its size, and that it loads nothing."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_cases import EVIL, RECORD, A, B, flapping

from cqels_opt.plans import Join, Plan, Probe, Scan, Split, operators, parse_planned
from cqels_opt.trace import picture as picture_module
from cqels_opt.trace.page import live_page, trace_page
from cqels_opt.trace.picture import Picture
from cqels_opt.trace.records import Delta, Moved, OperatorRecord, StoreVersions, read_trace
from cqels_opt.trace.trees import plan_trees

FIXTURE = Path(__file__).parent / "q2.jsonl"


class Blocks(HTMLParser):
    """The texts of a page's script and style elements, and all its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style"):
            self.texts.append((self._within, data))


def blocks(page: str) -> Blocks:
    found = Blocks()
    found.feed(page)
    return found


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_the_data_are_in_the_page() -> None:
    records = list(read_trace(FIXTURE))
    picture = Picture()
    picture.add(records)
    assert data_of(trace_page(records, "q2.jsonl")) == picture.to_json("q2.jsonl")


def test_versions_of_the_static_data_are_in_the_page() -> None:
    """With their first batches, so that they can be drawn with the plans."""
    records = flapping(6)
    records[2], records[4] = replace(records[2], static=StoreVersions(5, 3)), replace(records[4], static=StoreVersions(6, 5))
    (query,) = data_of(trace_page(records, "t"))["queries"]
    assert query["versions"] == [
        {"record": 2, "batch": 2, "time": 2, "was": 3, "now": 5},
        {"record": 4, "batch": 4, "time": 4, "was": 5, "now": 6},
    ]


def test_an_empty_trace_has_a_page() -> None:
    assert data_of(trace_page([], "none"))["queries"] == []


def test_no_text_of_a_trace_becomes_markup() -> None:
    """A query, a plan, a statistic and a title that try to end their enclosing element."""
    reason = (Moved(EVIL, None, 1.0),)
    deltas = (Delta(EVIL, EVIL, operators=(OperatorRecord(EVIL, EVIL, (EVIL,), 1.0, 2),)), Delta("w", "w"))
    records = [
        replace(RECORD, query=EVIL, deltas=deltas, fallback=EVIL, windows={EVIL: 1}),
        replace(RECORD, query=EVIL, batch=1, deltas=(Delta(EVIL, EVIL + "2", switched=True, reason=reason),)),
    ]
    page = trace_page(records, EVIL)
    assert EVIL not in page and "alert('x')//\u2028" not in page
    plain = blocks(trace_page([RECORD], "plain"))
    assert [tag for tag, _, _ in blocks(page).attributes] == [tag for tag, _, _ in plain.attributes]
    (query,) = data_of(page)["queries"]
    assert (query["query"], query["statistics"], query["sources"][0]["plans"][0]["plan"]) == (EVIL, [EVIL], EVIL)


def test_the_page_loads_nothing_and_runs_nothing_but_its_own_script() -> None:
    page = trace_page(read_trace(FIXTURE), "q2.jsonl")
    found = blocks(page)
    policy = next(
        value for tag, name, value in found.attributes if tag == "meta" and name == "content" and value and "src" in value
    )
    (style,) = (text for kind, text in found.texts if kind == "style")
    _, script = (text for kind, text in found.texts if kind == "script")

    def digest(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    assert policy == (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; connect-src 'none'; base-uri 'none'"
    )
    assert not re.search(r"@import|url\(", style)
    assert [(tag, name) for tag, name, _ in found.attributes if name in ("src", "href", "style") or name.startswith("on")] == []
    assert "connect-src 'self'" in live_page("q")
    assert data_of(live_page("q"))["live"] is True


@pytest.mark.long
def test_a_long_trace_has_a_small_page_with_all_switches_and_all_peaks() -> None:
    """A switch in every second batch, and one slow batch."""
    page = trace_page(flapping(20_000), "long")
    (query,) = data_of(page)["queries"]
    (source,) = query["sources"]
    assert len(page) < 3_000_000
    assert query["points"]["width"] == 32
    assert max(query["batch"]["ms"]["greatest"]) == 9000
    assert len(source["switches"]) == query["switched"] == 9999
    assert [one["batch"] for one in source["switches"]] == list(range(2, 20_000, 2))
    assert source["switches"][4]["reason"] == [[0, 10, 11]]
    assert source["switches"][4]["before"] == [[1, 1], [4, 9]] and source["switches"][4]["after"] == [[1, 1], [4, 10]]
    assert max(source["observed"]["a"]["greatest"]) == 19_999


def test_a_running_job_keeps_the_newest_switches_alone() -> None:
    picture = Picture(newest=10)
    picture.add(flapping(1000))
    (source,) = picture.query("q")["sources"]
    assert [one["batch"] for one in source["switches"]] == list(range(980, 1000, 2))
    assert source["switched"] == picture.query("q")["switched"] == 499
    assert picture.query("q")["estimates"][0]["known"] == 10


def test_plans_without_number_do_not_fill_the_memory_of_a_running_job() -> None:
    """The cut of a split is part of its plan's text, so every batch can have a new plan."""
    picture = Picture(newest=5)
    for number in range(200):
        plan = f"{A} | a[?x] >= {number}: {B}"
        picture.add([replace(RECORD, batch=number, deltas=(Delta("w", plan, 1.0, switched=number > 0),))])
    (source,) = picture.query("q")["sources"]
    assert len(source["plans"]) <= 11
    assert source["plans"][source["reigns"][-1][2]]["plan"].startswith(f"{A} | a[?x] >= 199")
    assert source["plans"][-1]["letter"] == "R7"  # the two hundredth
    assert len(source["costs"]) == 24


def test_many_queries_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_module, "MOST_VALUES", 20_000)
    records = [replace(record, query=f"q{number}") for number in range(20) for record in flapping(250)]
    found = data_of(trace_page(records, "many"))["queries"]
    assert [query["query"] for query in found] == [f"q{number}" for number in range(20)]
    assert {query["points"]["width"] for query in found} == {4}
    assert {len(query["batch"]["ms"]["mean"]) for query in found} == {63}
    assert {len(query["sources"][0]["switches"]) for query in found} == {124}


relations = st.text("abc#1_", min_size=1, max_size=4)
variables = st.lists(st.sampled_from("xyz"), max_size=2, unique=True).map(lambda names: tuple(sorted(names)))
bushy = st.deferred(lambda: plans.filter(lambda part: not isinstance(part, Scan)))
plans: st.SearchStrategy[Plan] = st.deferred(
    lambda: relations.map(Scan) | st.builds(Probe, plans, relations, variables) | st.builds(Join, plans, bushy, variables)
)


@pytest.mark.long
@given(plans)
def test_the_nodes_of_a_tree_are_the_operators_of_its_plan(plan: Plan) -> None:
    steps = operators(plan)
    trees = plan_trees(str(plan))
    assert trees is not None
    found: dict[int, tuple[str | None, tuple[str, ...]]] = {}

    def walk(node: dict[str, Any]) -> None:
        if node["operator"] is not None:
            found[node["operator"]] = (node.get("relation"), tuple(node.get("on", ())))
        for side in node.get("sides", ()):
            walk(side)

    walk(trees[0])
    assert found == {number: (step.relation if step.op == "scan" else None, step.on) for number, step in enumerate(steps)}


def test_a_split_has_two_trees_whose_operators_follow_each_other() -> None:
    text = f"{A} | a[?x] >= 8: {B}"
    assert isinstance(parse_planned(text), Split)
    few, many = plan_trees(text) or ()
    assert (few["operator"], many["operator"], many["beyond"]) == (2, 5, "a[?x] >= 8")


def test_what_is_no_plan_of_ours_has_no_tree() -> None:
    assert plan_trees("spark") == [{"relation": "spark", "operator": 0}]
    assert plan_trees("== Physical Plan ==") is None
