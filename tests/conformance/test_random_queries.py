"""Random queries over random worlds: the engine's bag of answers is the independent evaluation's, for every cut, plan and share.

``CQELS_OPT_CASES`` is the number of cases (some hundred by default), ``CQELS_OPT_SEED`` the first seed. A case that fails is made
small before it is shown; its seed makes it again.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from local_run import Cut, register
from random_cases import Case, make, shrunk

from cqels_opt.errors import QueryError, RunError

CASES = int(os.environ.get("CQELS_OPT_CASES", "120"))
FIRST = int(os.environ.get("CQELS_OPT_SEED", "0"))
EACH = 12  # cases a test, so that a run shows how far it is


def cuts(seed: int) -> list[Cut]:
    """All at once, and two other ways."""
    rng = random.Random(seed)
    others = [
        Cut(
            rng.choice(["1", "7", "100", "500ms"]),
            rng.choice(["adaptive", "first", "static", "worst", "random"]),
            rng.choice([1, 3]),
            rng.choice([None, 3]),
            seed,
        )
        for _ in range(2)
    ]
    return [Cut("100"), *others]


def wrong(case: Case, seed: int) -> str | None:
    """What is wrong with the engine's answers to a case, if anything."""
    with tempfile.TemporaryDirectory() as folder:
        query = register(case.query(), case.world, Path(folder), case.settings)
        whole = query.run(Cut("100"))
        try:
            verdict = query.judged(whole.answers)
        except (QueryError, RunError) as error:
            if "cannot evaluate the rewritten query" not in str(error) and "verify cannot" not in str(error):
                raise
        else:
            if not verdict.equal:
                return verdict.text()
        in_order = case.settings.operator == "rstream" and any(m.startswith("ORDER") for m in case.modifiers)
        for how in cuts(seed):
            again = query.run(how)
            if again.answers != whole.answers:
                return f"{how}: lacks {whole.answers - again.answers}, has {again.answers - whole.answers}"
            if in_order and again.lines != whole.lines:
                return f"{how}: the same rows in another order"
    return None


def fails(case: Case, seed: int) -> bool:
    """Whether a case fails for whatever reason but that it is no query."""
    try:
        return wrong(case, seed) is not None
    except QueryError:
        return False


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, EACH))
def test_random_queries(first: int) -> None:
    for seed in range(first, min(first + EACH, FIRST + CASES)):
        case = make(seed)
        if (reason := wrong(case, seed)) is not None:
            small = shrunk(case, lambda c, s=seed: fails(c, s), budget=300)  # type: ignore[misc]
            pytest.fail(f"seed {seed}:\n{small}\n{wrong(small, seed) or reason}")
