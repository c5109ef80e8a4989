"""Random queries over random worlds: the engine's bag of answers is the independent evaluation's, for all batches and plans.

The queries cover all dialects and forms, all report policies and output operators, bags and sets (full_algebra_cases.py).
Queries that pyoxigraph evaluates correctly are compared with `verify`; the rest of the algebra, where pyoxigraph deviates
from SPARQL 1.1, with the definitions (by_definition.py). ``CQELS_OPT_CASES`` is the number of cases per kind,
``CQELS_OPT_SEED`` the first seed. A case that fails is reduced before it is reported; its seed reproduces it.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from by_definition import difference
from case_shrinking import shrunk
from full_algebra_cases import KINDS, Formed
from local_runs import Cut, register
from mixed_frames import Compared
from random_cases import Case, make

from cqels_opt.errors import QueryError
from cqels_opt.operators import eager_aggregation
from cqels_opt.runtime import driver, ingest

CASES = int(os.environ.get("CQELS_OPT_CASES", "7"))
FIRST = int(os.environ.get("CQELS_OPT_SEED", "0"))
EACH = 7  # cases per test, so that the progress of a run is visible


def other(seed: int) -> Cut:
    """A way to run a case, besides all in one batch."""
    rng = random.Random(seed)
    return Cut(
        rng.choice(["1", "3", "7", "100", "500ms"]),
        rng.choice(["adaptive", "first", "static", "worst", "random", "random"]),
        rng.choice([1, 3]),
        rng.choice([None, 3]),
        seed,
    )


def wrong(case: Case, seed: int, whole: bool = False, joins: bool = False, shown: list[int] | None = None) -> str | None:
    """The difference between the engine's answers to a case and the expected ones, if any. ``whole``: it uses the whole language.

    ``shown`` receives the number of rows with at least one binding.
    """
    with tempfile.TemporaryDirectory() as folder:
        query = register(case.query(), case.world, Path(folder), case.settings)
        once = query.run(Cut("100"))
        if shown is not None:
            shown.append(sum(count for (_, _, row), count in once.answers.items() if row))
        if reason := difference(query, once.answers, whole):
            return reason
        in_order = query.settings.operator == "rstream" and any(m.startswith("ORDER") for m in case.modifiers)
        with pytest.MonkeyPatch.context() as patch:  # what pays for many rows is done for few
            patch.setattr(eager_aggregation, "FEW", 1)
            patch.setattr(eager_aggregation, "PAYS", 1.0)
            for module in (ingest, driver) if seed % 2 else ():
                patch.setattr(module, "INDEXED_FROM", 1)
            again = query.run(how := other(seed))
        if again.answers != once.answers:
            return f"{how}: lacks {once.answers - again.answers}, has {again.answers - once.answers}"
        if in_order and again.lines != once.lines:
            return f"{how}: the same rows in another order"
        if joins and Compared(random.Random(seed)).run(query, Cut("15")).answers != once.answers:
            return "other answers beside joins by lot"
    return None


def fails(case: Case, seed: int, whole: bool) -> bool:
    """Whether a case fails for any reason except an invalid query."""
    try:
        return wrong(case, seed, whole, joins=True) is not None
    except QueryError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, EACH))
@pytest.mark.parametrize("kind", KINDS)
def test_random_queries(kind: str, first: int) -> None:
    whole, shown = kind.startswith("whole"), list[int]()
    for seed in range(first, min(first + EACH, FIRST + CASES)):
        case = make(seed, Formed(kind))
        try:
            reason = wrong(case, seed, whole, joins=seed % 4 == 0, shown=shown)
        except Exception as error:  # noqa: BLE001 - a crash is made small like any other failure
            reason = repr(error)
        if reason is not None:
            small = shrunk(case, lambda c, s=seed: fails(c, s, whole), budget=300)  # type: ignore[misc]
            pytest.fail(f"{kind}, seed {seed}: {reason}\n{small}")
    assert sum(map(bool, shown)) > len(shown) / 5, "most cases have answers: three in five, of all seeds"
