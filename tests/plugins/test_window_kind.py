"""A window kind of another package, end to end: ``examples/extending/window.py`` as it stands, through its entry point."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from added_parts import install
from hypothesis import given
from hypothesis import strategies as st
from local_runs import Cut, Registered, Settings, World, bare, register

from cqels_opt.errors import InputError, QueryError
from cqels_opt.query.algebra import Window
from cqels_opt.query.parser import parse
from cqels_opt.query.printing.queries import to_text
from cqels_opt.verify import Element
from cqels_opt.windows.kinds import kind_of

GROUP = "cqels_opt.windows"
S, EX = "<http://ex.org/S>", "http://ex.org/"
CQELS = f"""PREFIX : <{EX}>
SELECT ?p ?city FROM NAMED :S [months(2)] AS ?w FROM NAMED :S [RANGE 10 days] AS ?v
WHERE {{ GRAPH ?w {{ ?p :at ?l }} GRAPH ?v {{ ?p :met ?other }} ?l :in ?city }}"""
RSPQL = f"""PREFIX : <{EX}>
REGISTER RSTREAM :out AS SELECT ?p ?l FROM NAMED WINDOW :w ON :S [months(1)] WHERE {{ WINDOW :w {{ ?p :at ?l }} }}"""
DAY = 86_400_000

Row = tuple[tuple[str, str], ...]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the example, as if it was installed; and one whose entry point is no window kind."""
    install(monkeypatch, EntryPoint("months", "window:Months", GROUP), EntryPoint("broken", "collections:Counter", GROUP))


def month(t: int) -> int:
    """The number of a time's month, from the calendar."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=t)
    return at.year * 12 + at.month


def holds(t: int, at: int, count: int) -> bool:
    """The definition of the example's window."""
    return t <= at and month(at) - month(t) < count


@given(st.integers(-(10**12), 3 * 10**12), st.integers(0, 200 * DAY), st.integers(1, 4))
def test_an_element_is_valid_while_its_month_is_in_the_window(t: int, later: int, count: int) -> None:
    kind = kind_of(Window("w", S, "months", count=count))
    (start,), (end,) = kind.validity(np.array([t]), 0)
    assert (start <= t + later < end) == holds(t, t + later, count)


def elements(rng: random.Random) -> list[Element]:
    """Half a year of what people do, in order of time."""
    times = sorted(rng.randrange(180 * DAY) for _ in range(40))
    people, places = [f"<{EX}p{n}>" for n in range(3)], [f"<{EX}l{n}>" for n in range(3)]
    made = [(rng.choice(people), rng.choice([("at", places), ("met", people)])) for _ in times]
    return [Element(t, ((p, f"<{EX}{verb}>", rng.choice(of)),)) for t, (p, (verb, of)) in zip(times, made)]


def in_cqels(content: list[Element], at: int) -> Counter[Row]:
    """The bag of CQELS at an instant, from the definitions."""
    triples = [(e.t, *e.triples[0]) for e in content]
    visits = [(s, o) for t, s, p, o in triples if p == f"<{EX}at>" and holds(t, at, 2)]
    meets = [s for t, s, p, _ in triples if p == f"<{EX}met>" and t <= at < t + 10 * DAY]
    return Counter(
        (("city", bare(city)), ("p", bare(p))) for p, place in visits for who in meets if who == p for city in CITY[place]
    )


CITY = {f"<{EX}l{n}>": [f"<{EX}c{n // 2}>"] for n in range(3)}
STATIC = [(place, f"<{EX}in>", city) for place, cities in CITY.items() for city in cities]


def run(query: Registered, how: Cut) -> Counter[tuple[int, Row]]:
    """The answers of a run."""
    lines = [json.loads(line) for line in query.run(how).lines]
    return Counter((a["time"], tuple(sorted((v, term["value"]) for v, term in a["bindings"].items()))) for a in lines)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("drain", [False, True])
def test_answers_are_those_of_the_definition(seed: int, drain: bool, tmp_path: Path) -> None:
    """ISTREAM on content change: the differences of the bags at all instants at which something may change."""
    rng = random.Random(seed)
    given = elements(rng)
    firsts = [int(datetime(1970, m, 1, tzinfo=UTC).timestamp() * 1000) for m in range(1, 12)]
    moments = sorted({*(e.t for e in given), *(e.t + 10 * DAY for e in given), *firsts})
    end = max(at for at in moments if any(holds(e.t, at - 1, 2) for e in given)) if drain else given[-1].t
    looked_at = [at for at in moments if given[0].t <= at <= end]
    expected: Counter[tuple[int, Row]] = Counter()
    for before, at in itertools.pairwise([-1, *looked_at]):
        expected.update({(at, row): n for row, n in (in_cqels(given, at) - in_cqels(given, before)).items()})
    assert expected
    query = register(CQELS, World({f"{EX}S": [given]}, STATIC), tmp_path, Settings(drain=drain))
    for plan in ("adaptive", "random"):
        how = Cut(rng.choice(["1", "3", "11", f"{20 * DAY}ms"]), plan, split=rng.choice([1, 2]), seed=seed)
        assert run(query, how) == expected


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_closings_are_the_ends_of_months(seed: int, tmp_path: Path) -> None:
    """RSTREAM on window close, and a set of triples: each month's visits, at its last millisecond."""
    rng = random.Random(seed)
    given = elements(rng)
    closings = [int(datetime(1970, m, 1, tzinfo=UTC).timestamp() * 1000) - 1 for m in range(2, 8)]
    expected: Counter[tuple[int, Row]] = Counter()
    for at in closings:
        seen = {e.triples[0] for e in given if month(e.t) == month(at)}
        if given[0].t <= at <= given[-1].t:
            expected.update((at, (("l", bare(o)), ("p", bare(s)))) for s, p, o in seen if p == f"<{EX}at>")
    assert expected
    settings = Settings("rstream", {"": "wc"}, duplicates="set")
    query = register(RSPQL, World({f"{EX}S": [given]}), tmp_path, settings)
    for batch in rng.sample(["1", "2", "5", "13", f"{40 * DAY}ms"], 2):
        assert run(query, Cut(batch)) == expected


def test_the_query_is_printed_as_it_was_written() -> None:
    query = parse(CQELS)
    assert query.windows[0] == Window("w", S, "months", count=2)
    assert "FROM NAMED <http://ex.org/S> [months(2)] AS ?w" in to_text(query, "cqels")
    assert "[months(1)]" in to_text(parse(RSPQL), "rspql")
    with pytest.raises(QueryError, match=r"it has no clause for the window w, months\(1\)"):
        to_text(parse(RSPQL), "csparql")


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("month(2)", r"no installed package adds the window kind month; did you mean months\?"),
        ("weeks_of_5(2)", "no installed package adds the window kind weeks_of_5; there are broken, months"),
        ("months(1, 2)", r"the window kind months takes \(count\), not 2 arguments"),
        ("months(3 days)", "3 days is no whole number: count of the window kind months is one"),
        ("months(0)", "at least one element"),
    ],
)
def test_a_wrong_kind_is_one_clear_sentence(window: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as found:
        parse(CQELS.replace("months(2)", window))
    assert (found.value.line, found.value.column is not None) == (2, True)


def test_computed_every_is_for_windows_of_rspql_star() -> None:
    with pytest.raises(QueryError, match=r"COMPUTED EVERY is for windows of RSP-QL\*, and this window is of another kind"):
        parse(RSPQL.replace(":out AS", ":out COMPUTED EVERY 1 day AS"))


def test_an_entry_point_that_is_no_window_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'broken' of cqels_opt.windows is .*, not a subclass of WindowKind"):
        register(CQELS.replace("months(2)", "broken()"), World({}), tmp_path)


def test_an_interval_for_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kind_of(Window("w", S, "months", count=1))
    monkeypatch.setattr(type(kind), "interval", lambda self, t, t0: (t[:1], t[:1] + 5))
    with pytest.raises(
        InputError, match=r"the window kind 'months' gives starts of shape \(1,\) and ends of shape \(1,\) for times of"
    ):
        kind.validity(np.arange(3), 0)


def test_the_independent_evaluation_refuses_it(tmp_path: Path) -> None:
    given = elements(random.Random(0))
    query = register(CQELS, World({f"{EX}S": [given]}, STATIC), tmp_path)
    with pytest.raises(InputError, match="verify has no definition of the window kind months"):
        query.judged(Counter())
