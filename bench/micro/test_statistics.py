"""The number of binding updates per second of the statistics (pytest-benchmark; no assertion about time).

A *binding update* is one value of one variable of one row of one occurrence, counted + on arrival and − on expiry. A batch of b
rows over a full window thus causes 2·b updates per variable of every occurrence. Q2 has two occurrences of two variables: batches
of 5,000 cause 40,000 updates. The timed section is all work of a batch on statistics: counting the slot's values as in ingest,
:meth:`BlockStatistics.advance`, and reading every statistic from which the plans of both delta sources are chosen.
``updates_per_second`` of the report is from the fastest round; on a loaded machine, ``--benchmark-timer=time.process_time``
counts only this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from pytest_benchmark.fixture import BenchmarkFixture

from cqels_opt.lod.relation import Relation
from cqels_opt.plans import DeltaRule
from cqels_opt.stats import BlockStatistics, SlotCounts, StaticRelation, WindowedRelation, slot_counts, slot_parts
from cqels_opt.stats.frequencies import Ints
from cqels_opt.stats.frequency_sketch import mixed

RATE, SECONDS = 5_000, 30
PEOPLE, PLACES, PAIRS = 100_000, 2_000, 1_000_000
PARTS = 8
OCCURRENCES = {"lsnow": ("person1", "loc"), "ls30": ("person2", "loc")}


def ids(numbers: Ints) -> Ints:
    """Terms as encoded by the dictionary: hashes."""
    return mixed(numbers).view(np.int64)


def static(name: str, columns: dict[str, Ints]) -> StaticRelation:
    """A static relation with the fan-outs of its indexes."""
    relation = Relation.build(columns)
    distinct = {variable: relation.distinct(variable) for variable in columns}
    return StaticRelation(name, tuple(columns), relation.rows, distinct, {v: relation.index((v,)).fanout for v in columns})


def q2(rng: np.random.Generator) -> BlockStatistics:
    """Q2 of the report at its scale."""
    people, places = ids(np.arange(PEOPLE)), ids(np.arange(PLACES) + (1 << 40))
    one, other = (people[(PEOPLE * rng.random(PAIRS) ** 1.5).astype(np.int64)] for _ in range(2))
    return BlockStatistics(
        [
            WindowedRelation("lsnow", OCCURRENCES["lsnow"], lambda t: (t, t + 1), identity="now"),
            WindowedRelation("ls30", OCCURRENCES["ls30"], lambda t: (t, t + 1000 * SECONDS), identity="30 s"),
            static("loc_name", {"loc": places}),
            static("coauthor", {"person1": np.concatenate([one, other]), "person2": np.concatenate([other, one])}),
            static("name#1", {"person1": people}),
            static("name#2", {"person2": people}),
        ]
    )


def columns(rng: np.random.Generator, second: int) -> tuple[Ints, Ints, Ints]:
    """One second of the stream: times, people, places."""
    t = 1000 * second + np.arange(RATE) * 1000 // RATE
    return t, ids(rng.integers(0, PEOPLE, RATE)), ids(rng.integers(0, PLACES, RATE) + (1 << 40))


def counted(second: int, t: Ints, person: Ints, place: Ints) -> dict[str, list[SlotCounts]]:
    """The counts of a slot as computed by ingest, once for the shape of both occurrences."""
    rest = int(np.searchsorted(t, t[-1]))
    parts = slot_parts(0, t[:rest], {"v0": person[:rest], "v1": place[:rest]}, PARTS)
    tail = slot_counts(0, t[rest:], {"v0": person[rest:], "v1": place[rest:]})
    numbered = [replace(part, slot=2 * PARTS * second + i) for i, part in enumerate((*parts, tail))]
    return dict.fromkeys(OCCURRENCES, numbered)


def step(statistics: BlockStatistics, second: int, t: Ints, person: Ints, place: Ints) -> float:
    """All work of a batch on statistics."""
    statistics.advance(counted(second, t, person, place), int(t[0]) - 1, int(t[-1]) - 1)
    rule = DeltaRule(("lsnow", "ls30"))
    read = (value for source in rule.order for value in statistics.view(rule.contents(source)).values().values())
    return sum(value for value in read if value is not None)


def test_binding_updates_of_q2(benchmark: BenchmarkFixture) -> None:
    rng = np.random.default_rng(1)
    statistics = q2(rng)
    seconds = iter(range(10_000))
    for second in range(SECONDS + 1):
        step(statistics, next(seconds), *columns(rng, second))
    window = statistics.windows["ls30"]
    assert 0.95 * RATE * SECONDS < window.card("old") <= RATE * SECONDS

    def batches() -> Iterator[tuple[tuple[object, ...], dict[str, object]]]:
        for second in seconds:
            yield (statistics, second, *columns(rng, second)), {}

    ready = batches()
    found = benchmark.pedantic(step, setup=lambda: next(ready), rounds=20, warmup_rounds=3)
    assert found > 0
    assert 0.95 * RATE * SECONDS < window.card("old") <= RATE * SECONDS
    updates = 2 * RATE * sum(len(variables) for variables in OCCURRENCES.values())
    if benchmark.stats is not None:  # None if benchmarks are disabled
        benchmark.extra_info["updates_per_second"] = round(updates / benchmark.stats.stats.min)
