"""The study of bounds: what counts as an underestimate, and a small run in which none occurs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.bench.bound_quality import Compared, ratios, run, underestimates
from cqels_opt.bench.local import load, prepare
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.social import DRIFT, PLACES_GRAPH, STREAM, social
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.rdf.static import StaticSource
from cqels_opt.windows.batch_size import BatchSize


def test_underestimates_and_ratios() -> None:
    found = [Compared(2, 4, 8.0), Compared(2, 0, 3.0), Compared(3, 5, 4.0)]
    assert underestimates(found) == 1
    assert ratios(found) == {2: [2.0], 3: [0.8]}


@pytest.mark.parametrize("name", ["q2", "q4-prime"])
def test_a_small_run_has_no_underestimate(name: str, tmp_path: Path) -> None:
    world = social(tmp_path, authors=100, coauthor_pairs=600, places=40, elements=800, rate=20, phases=DRIFT)
    store = load(tmp_path / "store", [StaticSource(world.static), StaticSource(world.places, PLACES_GRAPH)])
    text = (QUERIES / f"{name}.rq").read_text(encoding="utf-8").replace("$Author Name$", "Author 3")
    query = prepare(name, text, store, {STREAM: world.stream}, tmp_path / "q", BatchSize(count=100))
    (adaptive, answers), (first, others) = (run(query, tmp_path / mode, mode) for mode in ("adaptive", "first"))
    assert answers == others
    assert answers
    assert not underestimates([*adaptive, *first])
    assert {one.relations for one in first if one.rows} >= {2, 3}
    assert DeltaJoin.merges_equal
