"""The time of re-planning (pytest-benchmark; no assertion about time). Runs few rounds, so that it stays a test.

A round plans two delta sources; ``milliseconds_per_source`` of the report has the median and the minimum of one. On a loaded
machine, ``--benchmark-timer=time.process_time`` counts only this process.
"""

from __future__ import annotations

import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from cqels_opt.bench.shapes import SHAPES
from cqels_opt.plans import KnownStatistics, Optimizer, QueryGraph

SOURCES = ["r0", "r1"]


def drifting(graph: QueryGraph, seed: int) -> dict[str, KnownStatistics]:
    """Statistics in which every leaf differs from one seed to the next."""
    rng = random.Random(seed)
    names = [r.name for r in graph.relations]
    rows = {name: rng.uniform(1, 1e5) for name in names}
    joins = {
        (names[e.left], names[e.right], e.variable): rows[names[e.left]] * rows[names[e.right]] * 10 ** rng.uniform(-5, -1)
        for e in graph.edges
    }
    return dict.fromkeys(SOURCES, KnownStatistics(rows, joins))


def per_source(benchmark: BenchmarkFixture) -> None:
    """Adds the time of one delta source to the report."""
    if benchmark.stats is not None:  # None if benchmarks are disabled
        found = benchmark.stats.stats
        benchmark.extra_info["milliseconds_per_source"] = {
            name: round(1000 * seconds / len(SOURCES), 3) for name, seconds in (("median", found.median), ("min", found.min))
        }


@pytest.mark.parametrize("n", [8, 12])
@pytest.mark.parametrize("shape", ["chain", "star", "cycle"])
def test_choosing_after_every_leaf_changed(benchmark: BenchmarkFixture, shape: str, n: int) -> None:
    graph = SHAPES[shape](n)
    optimizer = Optimizer(graph, SOURCES)
    batches = iter([drifting(graph, seed) for seed in range(40)])
    choices = benchmark.pedantic(optimizer.choose, setup=lambda: ((next(batches),), {}), rounds=30, warmup_rounds=5)
    per_source(benchmark)
    assert set(choices) == set(SOURCES)
    assert optimizer.memo.recosted == len(optimizer.memo.total)


@pytest.mark.parametrize(("shape", "n"), [("chain", 8), ("star", 12)])
def test_choosing_after_every_leaf_changed_with_feedback(benchmark: BenchmarkFixture, shape: str, n: int) -> None:
    """As in the driver: the operators' observed rows first correct the estimates."""
    graph = SHAPES[shape](n)
    optimizer = Optimizer(graph, SOURCES, feedback=True)
    batches = iter([drifting(graph, seed) for seed in range(40)])
    rng = random.Random(1)

    def batch() -> tuple[tuple[object, ...], dict[str, object]]:
        choices = optimizer.choose(next(batches))
        return ({s: [rng.uniform(1, 1e5) for _ in c.operators] for s, c in choices.items()}, next(batches)), {}

    def step(observed: dict[str, list[float]], statistics: dict[str, KnownStatistics]) -> None:
        for source, rows in observed.items():
            optimizer.observe(source, rows)
        optimizer.choose(statistics)

    benchmark.pedantic(step, setup=batch, rounds=15, warmup_rounds=3)
    per_source(benchmark)
    assert optimizer.memo.recosted == len(optimizer.memo.total)


def test_choosing_after_one_leaf_changed(benchmark: BenchmarkFixture) -> None:
    graph = SHAPES["star"](12)
    optimizer = Optimizer(graph, SOURCES)
    base = drifting(graph, 0)["r0"]
    optimizer.choose(dict.fromkeys(SOURCES, base))
    sizes = iter(range(1, 1000))

    def batch() -> tuple[tuple[object, ...], dict[str, object]]:
        moved = KnownStatistics({**base.cardinalities, "r5": float(next(sizes))}, base.join_sizes)
        return (dict.fromkeys(SOURCES, moved),), {}

    benchmark.pedantic(optimizer.choose, setup=batch, rounds=30)
    assert 0 < optimizer.memo.recosted < len(optimizer.memo.total)


@pytest.mark.parametrize(
    ("shape", "n"),
    [("chain", 8), ("star", 8), ("cycle", 8), ("clique", 8), ("chain", 12), ("star", 12), ("cycle", 12), ("star", 14)],
)
def test_enumerating(benchmark: BenchmarkFixture, shape: str, n: int) -> None:
    """The memo of a query, once: pairs, alternatives, and the first costs."""
    optimizer = benchmark.pedantic(Optimizer, (SHAPES[shape](n), SOURCES), rounds=2 if n > 8 else 5)
    assert not optimizer.fallback
