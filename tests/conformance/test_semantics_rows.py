"""The tables of SEMANTICS, row by row, on the engine: each window in a dialect's syntax, each profile, and the papers' examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.compiler.dialect_profile import query_semantics, with_window_semantics
from cqels_opt.query.algebra import Query
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element
from cqels_opt.windows.instants import Policy

from .conftest import EX, STREAM, short

T0 = 2700
TIMES = [500, 2700, 3000, 3001, 4700, 5200, 5200, 7999, 9700, 12_000]
CUTS = [Cut("1"), Cut("3", "random", 3, 3), Cut("100")]
Ends = Callable[[int], tuple[int, int] | None]
SELECT = "SELECT ?p"
INNER = "{ ?p :at ?l }"


def up(a: int, b: int) -> int:
    return -(-a // b) * b


def star(t: int) -> tuple[int, int] | None:
    """Definition 17: α = 2 s, β = 1 s."""
    if t < T0:
        return None
    return T0 + 2000 + max(0, (t - T0 - 2000) // 1000 + 1) * 1000 + 1, T0 + (t - T0) // 1000 * 1000 + 3000 + 1


def element(n: int, place: int) -> tuple[int, int] | None:
    """From the position of an element, counted from 0: until the n-th later one."""
    return TIMES[place], TIMES[place + n] if place + n < len(TIMES) else 1 << 60


def moved(n: int, m: int, place: int) -> tuple[int, int] | None:
    first, last = up(place + 1, m), up(place + 1 + n, m)
    if first > len(TIMES):
        return None
    return TIMES[first - 1], TIMES[last - 1] if last <= len(TIMES) else 1 << 60


# dialect, text, from an element's time (element windows: its position) to its validity; None: it is in no window
WINDOWS: dict[str, tuple[str, str, Ends]] = {
    "now": ("cqels", f"{SELECT} FROM NAMED :S [NOW] AS ?w {{ GRAPH ?w {INNER} }}", lambda t: (t, t + 1)),
    "range": ("cqels", f"{SELECT} {{ STREAM :S [RANGE 2s] {INNER} }}", lambda t: (t, t + 2000)),
    "sliding": (
        "cqels",
        f"{SELECT} {{ STREAM :S [RANGE 2s SLIDE 600ms] {INNER} }}",
        lambda t: (up(t, 600), up(t + 2000, 600)),
    ),
    "tumbling": ("cqels", f"{SELECT} {{ STREAM :S [RANGE 2s TUMBLING] {INNER} }}", lambda t: (up(t, 2000), up(t + 2000, 2000))),
    "delta": (
        "streaming-sparql",
        f"{SELECT} FROM STREAM :S WINDOW RANGE 2 SECOND SLIDE 600 MS {INNER}",
        lambda t: (t, t // 600 * 600 + 2000),
    ),
    "delta, a unit": (
        "streaming-sparql",
        f"{SELECT} FROM STREAM :S WINDOW RANGE 2 SECOND SLIDE {INNER}",
        lambda t: (t, t // 1000 * 1000 + 2000),
    ),
    "delta, milliseconds": (
        "streaming-sparql",
        f"{SELECT} FROM STREAM :S WINDOW RANGE 2000 SLIDE {INNER}",
        lambda t: (t, t + 2000),
    ),
    "fixed": (
        "streaming-sparql",
        f"{SELECT} FROM STREAM :S WINDOW RANGE 2 S FIXED {INNER}",
        lambda t: (t, t // 2000 * 2000 + 2000),
    ),
    "open-closed": (
        "rspql",
        f"{SELECT} FROM NAMED WINDOW :w ON :S [RANGE PT2S STEP PT1S] {{ WINDOW :w {INNER} }}",
        lambda t: (t, T0 + (up(t - T0, 1000) // 1000 - 1) * 1000 + 2000 + 1) if t > T0 else None,
    ),
    "step wider than range": (
        "rspql",
        f"{SELECT} FROM NAMED WINDOW :w ON :S [RANGE PT1S STEP PT2S] {{ WINDOW :w {INNER} }}",
        lambda t: (t, T0 + (up(t - T0, 2000) // 2000 - 1) * 2000 + 1000 + 1) if t > T0 else None,
    ),
    "closed-open": (
        "csparql",
        f"{SELECT} FROM STREAM :S [RANGE 2s STEP 1s] {INNER}",
        lambda t: (t + 1, T0 + (t - T0) // 1000 * 1000 + 2000 + 1) if t >= T0 else None,
    ),
    "computed every": (
        "rspql",
        f"REGISTER STREAM :out COMPUTED EVERY 1s AS {SELECT} FROM NAMED WINDOW :w ON :S [RANGE 2s STEP 1s] {{ WINDOW :w {INNER} }}",
        star,
    ),
    "past": ("sparqlstream", f"{SELECT} FROM STREAM :S [NOW - 2 S TO NOW - 500 MS] {INNER}", lambda t: (t + 500, t + 2000)),
    "past with a slide": (
        "sparqlstream",
        f"{SELECT} FROM STREAM :S [NOW - 2 S TO NOW - 500 MS SLIDE 1 S] {INNER}",
        lambda t: (t + 500, t + 2000),
    ),
    "from now on back": (
        "sparqlstream",
        f"{SELECT} FROM STREAM :S [NOW - 2 S TO NOW SLIDE 1 S] {INNER}",
        lambda t: (t, T0 + (up(t - T0, 1000) // 1000 - 1) * 1000 + 2000 + 1) if t > T0 else None,
    ),
    "triples": ("cqels", f"{SELECT} {{ STREAM :S [TRIPLES 3] {INNER} }}", lambda place: element(3, place)),
    "elems": ("streaming-sparql", f"{SELECT} FROM STREAM :S WINDOW ELEMS 3 {INNER}", lambda place: element(3, place)),
    "range triples": ("csparql", f"{SELECT} FROM STREAM :S [RANGE TRIPLES 3] {INNER}", lambda place: element(3, place)),
    "elements": (
        "rspql",
        f"{SELECT} FROM NAMED WINDOW :w ON :S [ELEMENTS 3] {{ WINDOW :w {INNER} }}",
        lambda place: element(3, place),
    ),
    "elements with a step": (
        "rspql",
        f"{SELECT} FROM NAMED WINDOW :w ON :S [ELEMENTS 3 STEP 2] {{ WINDOW :w {INNER} }}",
        lambda place: moved(3, 2, place),
    ),
    "elements with a wide step": (
        "rspql",
        f"{SELECT} FROM NAMED WINDOW :w ON :S [ELEMENTS 2 STEP 3] {{ WINDOW :w {INNER} }}",
        lambda place: moved(2, 3, place),
    ),
    "all": ("cqels", f"{SELECT} {{ STREAM :S [ALL] {INNER} }}", lambda t: (t, 1 << 60)),
}


def answers(query: Query, folder: Path, settings: Settings, world: World) -> list[str]:
    """The engine's answers, equal for all batches, and those of the independent evaluation."""
    found = register(query, world, folder, settings)
    outcomes = [found.run(how).answers for how in CUTS]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    verdict = found.judged(outcomes[0])
    assert verdict.equal, verdict.text()
    return short(outcomes[0])


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("duplicates", ["bag", "set"])
def test_windows(name: str, duplicates: Literal["bag", "set"], tmp_path: Path) -> None:
    """Every element enters and leaves at the times of the table."""
    dialect, text, ends = WINDOWS[name]
    query = parse(f"PREFIX : <{EX}> {text}", dialect)
    assert query.dialect == dialect
    by_place = query.windows[0].kind == "last"
    lives = [ends(place if by_place else t) for place, t in enumerate(TIMES)]
    elements = [Element(t, ((f"<{EX}p{i}>", f"<{EX}at>", f"<{EX}x>"),)) for i, t in enumerate(TIMES)]
    drain = not by_place and query.windows[0].kind != "all"
    latest = 1 << 50 if drain else TIMES[-1]
    for operator, edge, sign in (("istream", 0, "+"), ("dstream", 1, "-")):
        settings = Settings(operator, {"": "cc"}, {"": T0}, drain, duplicates=duplicates)
        told = sorted((life[edge], i) for i, life in enumerate(lives) if life and life[0] < life[1] and life[edge] <= latest)
        expected = sorted(f"{time / 1000:g} {sign} p{i}" for time, i in told)
        assert sorted(answers(query, tmp_path / operator, settings, World({STREAM: [elements]}))) == expected


def test_bounds_override_the_dialect_s() -> None:
    query = parse(f"PREFIX : <{EX}> {WINDOWS['closed-open'][1]}", "csparql")
    assert with_window_semantics(query, bounds="open-closed").windows[0].kind == "open-closed"
    other = parse(f"PREFIX : <{EX}> {WINDOWS['open-closed'][1]}", "rspql")
    assert with_window_semantics(other, bounds="closed-open").windows[0].kind == "closed-open"


CC, WC, WC_NC = Policy(content_change=True), Policy(window_close=True), Policy(window_close=True, non_empty=True)


@pytest.mark.parametrize(
    ("row", "policy", "operator", "duplicates"),
    [
        ("range", CC, "istream", "bag"),
        ("closed-open", WC_NC, "rstream", "set"),
        ("past", WC_NC, "rstream", "set"),
        ("open-closed", WC, "rstream", "set"),
        ("delta", CC, "istream", "bag"),
    ],
)
def test_profiles(row: str, policy: Policy, operator: str, duplicates: str) -> None:
    dialect, text, _ = WINDOWS[row]
    meant = query_semantics(parse(f"PREFIX : <{EX}> {text}", dialect))
    assert (meant.report.default, meant.operator, meant.duplicates) == (policy, operator, duplicates)


@pytest.mark.parametrize(("word", "operator"), [("ISTREAM", "istream"), ("DSTREAM", "dstream"), ("RSTREAM", "rstream")])
def test_operators_as_written(word: str, operator: str) -> None:
    stream = parse(f"PREFIX : <{EX}> SELECT {word} ?p FROM STREAM :S [NOW - 2 S TO NOW] {INNER}")
    window = parse(
        f"REGISTER {word} <urn:out> AS PREFIX : <{EX}> SELECT ?p FROM NAMED WINDOW :w ON :S [RANGE 2s STEP 1s] {{ WINDOW :w {INNER} }}"
    )
    assert [(q.dialect, query_semantics(q).operator) for q in (stream, window)] == [
        ("sparqlstream", operator),
        ("rspql", operator),
    ]
    assert query_semantics(stream, operator="dstream").operator == "dstream"


def test_computed_every_makes_the_instants_of_rspql() -> None:
    meant = query_semantics(parse(f"PREFIX : <{EX}> {WINDOWS['computed every'][1]}"))
    assert meant.report.default == Policy(period=1000)


# ------------------------------------------------------------------ SEMANTICS §5, E3 and E4
@pytest.mark.parametrize(
    ("bounds", "drain", "expected"),
    [
        ("open-closed", False, ["6 = x b", "6 = y a", "8 = y a"]),
        ("open-closed", True, ["6 = x b", "6 = y a", "8 = y a", "10 = y a", "10 = y c", "12 = y c"]),
        ("closed-open", False, ["6 = x a", "6 = x b", "8 = x b", "8 = y a"]),
    ],
)
def test_e3_and_e4(
    bounds: Literal["open-closed", "closed-open"], drain: bool, expected: list[str], world: list[Element], tmp_path: Path
) -> None:
    text = f"PREFIX : <{EX}> SELECT ?p ?l FROM NAMED WINDOW :w ON :S [RANGE PT5S STEP PT2S] {{ WINDOW :w {INNER} }}"
    settings = Settings("rstream", {"": "wc"}, {"": 1000}, drain, duplicates="set")
    assert answers(with_window_semantics(parse(text), bounds=bounds), tmp_path, settings, World({STREAM: [world]})) == expected


# ------------------------------------------------------------------ rsp-ql-2014
NEARBY = [("diana", "a", 2), ("eve", "b", 2), ("carl", "a", 5), ("eve", "a", 7), ("diana", "b", 12)]
SHOPS = World(
    {
        f"{EX}nearby": [[Element(t * 1000, ((f"<{EX}{who}>", f"<{EX}isNearby>", f"<{EX}{shop}>"),)) for who, shop, t in NEARBY]],
        f"{EX}coupon": [
            [
                Element(8000, ((f"<{EX}alice>", f"<{EX}offers>", f"<{EX}discount>"),)),
                Element(15_000, ((f"<{EX}bob>", f"<{EX}offers>", f"<{EX}coffee>"),)),
            ]
        ],
    },
    [(f"<{EX}alice>", f"<{EX}owns>", f"<{EX}a>"), (f"<{EX}bob>", f"<{EX}owns>", f"<{EX}b>")],
)
NEAR = "{ ?shopper :isNearby ?shop }"


def test_example_7_the_present_window(tmp_path: Path) -> None:
    """At 9 the present window is (5, 10], and it holds Eve at 7."""
    text = f"PREFIX : <{EX}> SELECT * FROM NAMED WINDOW :w ON :nearby [RANGE PT5S STEP PT2S] {{ WINDOW :w {NEAR} }}"
    settings = Settings("rstream", {"": "p:8000"}, {"w": 1000}, duplicates="set")
    assert answers(parse(text), tmp_path, settings, SHOPS) == ["9 = a eve"]


def test_examples_9_and_10_the_answer(tmp_path: Path) -> None:
    """Closings of the coupons' window where it is not empty: 8 and 16; the other window reports at none of these times.

    Rows are ?coupon ?owner ?shop ?shopper.
    """
    text = f"""PREFIX : <{EX}> REGISTER RSTREAM <urn:out> AS SELECT *
    FROM NAMED WINDOW :w1 ON :nearby [RANGE PT5S STEP PT2S] FROM NAMED WINDOW :w2 ON :coupon [RANGE PT2S STEP PT2S]
    WHERE {{ WINDOW :w1 {NEAR} WINDOW :w2 {{ ?owner :offers ?coupon }} ?owner :owns ?shop }}"""
    settings = Settings("rstream", {"w2": "wc,nc", "w1": "p:100000000"}, {"w1": 1000, "w2": 0}, True, duplicates="set")
    assert answers(parse(text), tmp_path, settings, SHOPS) == [
        "8 = discount alice a carl",
        "8 = discount alice a eve",
        "16 = coffee bob b diana",
    ]


@pytest.mark.parametrize(("t0", "first"), [(0, ["diana", "eve", "carl"]), (1, ["diana", "eve", "carl"]), (2, ["carl", "eve"])])
def test_example_11_what_the_first_window_holds_hangs_on_t0(t0: int, first: list[str], tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> REGISTER QUERY q AS SELECT ?shopper FROM STREAM :nearby [RANGE 5s STEP 2s] {NEAR}"
    settings = Settings("rstream", {"": "wc,nc"}, {"": t0 * 1000}, duplicates="set")
    query = with_window_semantics(parse(text), bounds="open-closed")
    rows = [row.split() for row in answers(query, tmp_path, settings, SHOPS)]
    assert sorted(row[2] for row in rows if row[0] == rows[0][0]) == sorted(first)


def test_example_12_both_windows_and_the_shops_in_one_graph(tmp_path: Path) -> None:
    """The same answer as Example 10, where all windows close together."""
    text = f"""PREFIX : <{EX}> REGISTER QUERY q AS SELECT *
    FROM STREAM :nearby [RANGE 5s STEP 2s] FROM STREAM :coupon [RANGE 2s STEP 2s]
    {{ ?shopper :isNearby ?shop . ?owner :offers ?coupon . ?owner :owns ?shop }}"""
    settings = Settings("rstream", {"": "wc,nc"}, {"S": 1000, "nearby": 1000}, duplicates="set")
    found = answers(with_window_semantics(parse(text), bounds="open-closed"), tmp_path, settings, SHOPS)
    assert found[:2] == ["8 = discount alice a carl", "8 = discount alice a eve"]


def test_example_13_policies_of_the_engines(tmp_path: Path) -> None:
    """CQELS evaluates when statements arrive; C-SPARQL and SPARQLstream when a non-empty window closes."""
    text = f"PREFIX : <{EX}> SELECT ?shopper FROM NAMED WINDOW :w ON :nearby [RANGE PT5S STEP PT2S] {{ WINDOW :w {NEAR} }}"
    cqels = Settings("istream", {"": "cc"}, {"": 1000}, duplicates="bag")
    assert {row.split()[0] for row in answers(parse(text), tmp_path / "cqels", cqels, SHOPS)} == {"2", "5", "7", "12"}
    others = Settings("rstream", {"": "wc,nc"}, {"": 1000}, True, duplicates="set")
    assert {row.split()[0] for row in answers(parse(text), tmp_path / "other", others, SHOPS)} == {
        "6",
        "8",
        "10",
        "12",
        "14",
        "16",
    }
