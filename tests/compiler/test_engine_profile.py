"""The profile ``cqels-1.x``: windows and instants of CQELS 1.x, on the engine, by hand and by the independent evaluation."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.compiler.dialect_profile import policy_words, query_semantics, with_window_semantics
from cqels_opt.compiler.registration import member_of, record_of
from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects import ENGINES, profile_names
from cqels_opt.query.dialects.profiles import OF_ENGINES, find_profile
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text
from cqels_opt.verify import Element
from cqels_opt.windows.instants import Policy

STREAM = "http://ex.org/s"
PROFILE = "cqels-1.x"
SETTINGS = Settings("istream", {"": "ea"})
TWO = Cut("2")


def query_of(window: str, select: str = "?p ?place") -> str:
    return f"SELECT {select} {{ STREAM <{STREAM}> [{window}] {{ ?p <urn:at> ?place }} }}"


def at(time: int, person: str, place: str = "hall") -> Element:
    return Element(time, ((f"<urn:{person}>", "<urn:at>", f"<urn:{place}>"),))


def found(text: str, elements: list[Element], folder: Path, settings: Settings = SETTINGS, cut: Cut = TWO) -> list[str]:
    """``time op values`` of each answer, which the independent evaluation has judged."""
    query = register(with_window_semantics(parse(text), PROFILE), World({STREAM: [elements]}), folder, settings)
    done = query.run(cut)
    verdict = query.judged(done.answers)
    assert verdict.equal, verdict.text()
    rows = []
    for answer in map(json.loads, done.lines):
        values = (cell["value"].removeprefix("urn:") for cell in answer["bindings"].values())
        rows.append(f"{answer['time']} {answer['op']} {' '.join(values)}")
    return sorted(rows, key=lambda row: (int(row.split()[0]), row))


def test_the_profile() -> None:
    assert set(OF_ENGINES) == set(ENGINES) and profile_names()[-1] == PROFILE
    assert find_profile("rspql") == find("rspql").profile
    meant = query_semantics(parse(query_of("RANGE 4s")), PROFILE)
    assert (meant.report.default, meant.operator, meant.duplicates) == (Policy(arrival=True), "istream", "bag")
    assert policy_words(meant.report.default) == "ea"
    with pytest.raises(QueryError, match="unknown profile 'cqels-2'"):
        find_profile("cqels-2")


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("RANGE 4s", Window("s", f"<{STREAM}>", "purged", 4000)),
        ("RANGE 4s SLIDE 1s", Window("s", f"<{STREAM}>", "purged", 4000, 1000)),
        ("RANGE 4s TUMBLING", Window("s", f"<{STREAM}>", "purged", 4000, 4000)),
        ("NOW", Window("s", f"<{STREAM}>", "now")),
        ("TRIPLES 3", Window("s", f"<{STREAM}>", "last", count=3)),
    ],
)
def test_its_windows_are_read_for_a_run_and_the_text_stays_that_of_the_dialect(clause: str, window: Window) -> None:
    query = parse(query_of(clause))
    assert with_window_semantics(query, PROFILE).windows == (window,)
    assert with_window_semantics(query) == query
    assert parse(to_text(query, "cqels")).windows[0].kind == query.windows[0].kind
    for name, profile in (("q", PROFILE), ("p", None)):
        member = member_of(record_of(query_of(clause), name, profile=profile))
        assert member.query.windows == (query.windows if profile is None else (window,))
        assert member.outline is None or member.outline.query.windows == member.query.windows


def test_a_range_keeps_both_ends_and_only_arrivals_report(tmp_path: Path) -> None:
    elements = [at(1000, "ann"), at(3000, "bob"), at(5000, "cyd"), at(5001, "dan"), at(9001, "eve")]
    counted = query_of("RANGE 4s", "(COUNT(*) AS ?n)")
    assert found(counted, elements, tmp_path / "both") == [
        "1000 + 1",
        "3000 + 2",
        "5000 + 3",  # ann is 4 s old and stays; at 5001 she has left, and dan enters: still 3
        "9001 + 2",  # dan is 4 s old and stays; nothing at 7001 and at 9001 for what leaves
    ]
    query = register(parse(counted), World({STREAM: [elements]}), tmp_path / "ours", Settings("istream", {"": "cc"}))
    assert sorted(int(json.loads(line)["time"]) for line in query.run(Cut("2")).lines) == [1000, 3000, 5001, 7000, 9000]


def test_elements_enter_at_once_and_are_purged_at_slides(tmp_path: Path) -> None:
    """What a range of 60 s that slides by 30 s holds when elements arrive: the begin of the range moves to multiples of 30 s."""
    times = [1000, 31_000, 33_500, 36_000, 42_000, 61_500, 93_000]
    elements = [at(time, f"p{time}") for time in times]
    rows = found(query_of("RANGE 60s SLIDE 30s", "?p"), elements, tmp_path, Settings("rstream", {"": "ea"}))
    held = {time: [row.split()[2] for row in rows if row.startswith(f"{time} ")] for time in times}
    begins = {1000: 0, 31_000: 0, 33_500: 0, 36_000: 0, 42_000: 0, 61_500: 30_000, 93_000: 60_000}
    assert held == {time: [f"p{t}" for t in times if begins[time] <= t <= time] for time in times}


@pytest.mark.parametrize("seed", range(12))
def test_random_streams_by_the_independent_evaluation(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    times = sorted(rng.choices(range(0, 900), k=25))
    elements = [at(time, rng.choice("abc"), rng.choice(["hall", "yard"])) for time in times]
    window = rng.choice(["RANGE 70ms", "RANGE 100ms SLIDE 40ms", "RANGE 30ms SLIDE 50ms", "RANGE 80ms TUMBLING", "TRIPLES 4"])
    text = rng.choice(
        [
            query_of(window),
            query_of(window, "?place (COUNT(DISTINCT ?p) AS ?n)") + " GROUP BY ?place",
            f"SELECT ?p ?q {{ STREAM <{STREAM}> [{window}] {{ ?p <urn:at> ?l }} STREAM <{STREAM}> [RANGE 40ms] {{ ?q <urn:at> ?l }} }}",
            f"SELECT ?p ?q {{ STREAM <{STREAM}> [{window}] {{ ?p <urn:at> ?l }} "
            f"OPTIONAL {{ STREAM <{STREAM}> [NOW] {{ ?q <urn:at> ?l }} }} }}",
        ]
    )
    policy = rng.choice(["ea", "ea", "ea,nc", "cc", "wc", "ea,p:90"])
    settings = Settings(
        rng.choice(["istream", "dstream", "rstream"]), {"": policy}, drain=rng.random() < 0.4 and "TRIPLES" not in window
    )
    assert found(text, elements, tmp_path, settings, Cut(str(rng.choice([1, 4, 9])), rng.choice(["adaptive", "random"])))
