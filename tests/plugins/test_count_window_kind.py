"""A window kind of another package that counts elements: its intervals begin and end when later elements arrive."""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from added_parts import install
from local_runs import Cut, World, bare, register

from cqels_opt.verify import Element
from cqels_opt.windows.intervals import Times
from cqels_opt.windows.window_kind import CountWindowKind

EX = "http://ex.org/"
QUERY = f"""PREFIX : <{EX}>
SELECT ?p ?l FROM NAMED :S [before(3)] AS ?w FROM NAMED :S [NOW] AS ?n
WHERE {{ GRAPH ?w {{ ?p :at ?l }} GRAPH ?n {{ ?someone :at ?l }} }}"""

Row = tuple[tuple[str, str], ...]


class Before(CountWindowKind):
    """``[before(n)]``: the n elements before the last one."""

    parameters = ("count",)

    def ranks(self, rank: Times) -> tuple[Times, Times]:
        """From the next element on, until n more have arrived."""
        return rank + 1, rank + 1 + self.window.count

    @property
    def depth(self) -> int:
        """The elements of the window, and the last one."""
        return self.window.count + 1


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("package_with_a_count_window")
    package.Before = Before  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    install(monkeypatch, EntryPoint("before", f"{package.__name__}:Before", "cqels_opt.windows"))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_answers_are_those_of_the_definition(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    times = sorted(rng.choices(range(1000, 3000), k=40))
    given = [Element(t, ((f"<{EX}p{rng.randrange(4)}>", f"<{EX}at>", f"<{EX}l{rng.randrange(3)}>"),)) for t in times]

    def bag(at: int) -> Counter[Row]:
        window = [e.triples[0] for e in given if e.t <= at][-4:-1]
        now = [e.triples[0] for e in given if e.t == at]
        return Counter((("l", bare(place)), ("p", bare(who))) for who, _, place in window for _, _, here in now if here == place)

    moments = sorted({*times, *(t + 1 for t in times if t < times[-1])})
    expected: Counter[tuple[int, Row]] = Counter()
    for before, at in itertools.pairwise([-1, *moments]):
        expected.update({(at, row): n for row, n in (bag(at) - bag(before)).items()})
    assert expected
    query = register(QUERY, World({f"{EX}S": [given]}), tmp_path)
    for batch, plan in (("1", "adaptive"), ("4", "random"), ("300ms", "adaptive")):
        lines = [json.loads(line) for line in query.run(Cut(batch, plan, seed=seed)).lines]
        got = Counter((a["time"], tuple(sorted((v, term["value"]) for v, term in a["bindings"].items()))) for a in lines)
        assert got == expected
