"""How far a statistic must move before another plan takes over: what EXPLAIN says is what choosing then does."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from cqels_opt.bench.shapes import clique
from cqels_opt.plans import NEAR_TIE, WORTH, KnownStatistics, Optimizer, StatisticKey, validity_ranges

from .graphs import q2, random_graph, random_statistics, uniform_statistics
from .test_optimizer import figure_3, figure_3_graph


def with_value(known: KnownStatistics, key: StatisticKey, value: float) -> KnownStatistics:
    """The same statistics but for one."""
    match key.kind, key.names:
        case "cardinality", (relation,):
            return replace(known, cardinalities={**known.cardinalities, relation: value})
        case "distinct", (relation, variable):
            return replace(known, distincts={**known.distincts, (relation, variable): value})
        case "join_size", (left, right, variable):
            return replace(known, join_sizes={**known.join_sizes, (left, right, variable): value})
        case "selectivity", (name,):
            return replace(known, selectivities={**known.selectivities, name: value})
    raise AssertionError(key)


def test_the_plan_of_figure_3_depends_on_the_papers_of_the_author_who_arrives() -> None:
    """The two orders of the report's Figure 3 cost the same where the author has 40 co-author pairs, as many as people are near."""
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], cost_model="paper")
    optimizer.choose({"lsnow": figure_3(1.0)})
    found = {valid.statistic: valid for valid in optimizer.validity("lsnow")}
    papers = found["join_size(lsnow, coauthor, ?person1)"]
    # log2(5000) + p · log2(1000) = (log2(1000) + 40 · log2(5000)) · 1.05: the sides of a near tie, see NEAR_TIE
    crossing = (1.05 * (math.log2(1000) + 40 * math.log2(5000)) - math.log2(5000)) / math.log2(1000)
    assert papers.now == 1.0
    assert papers.below is None
    assert papers.above == pytest.approx(crossing, rel=2e-3)


@pytest.mark.parametrize("seed", range(60))
def test_at_the_end_of_its_range_the_plan_is_left(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, most=5)
    known = random_statistics(rng, graph)
    optimizer = Optimizer(graph, ["r0"])
    first = optimizer.choose({"r0": known})["r0"]
    psi = optimizer.memo.psi.copy()
    keys = {str(key): key for key in optimizer.base.keys}
    for valid in optimizer.validity("r0"):
        for end in (valid.below, valid.above):
            if end is not None:
                other = Optimizer(graph, ["r0"])
                assert other.choose({"r0": known})["r0"].plan == first.plan
                at_end = {"r0": with_value(known, keys[valid.statistic], end)}
                assert any(other.choose(at_end)["r0"].switched for _ in range(math.ceil(WORTH / NEAR_TIE) + 1)), valid
    assert (optimizer.memo.psi == psi).all()
    assert not optimizer.choose({"r0": known})["r0"].switched


def test_ranges_exist_and_the_nearest_come_first() -> None:
    found = []
    for seed in range(20):
        rng = random.Random(seed)
        graph = random_graph(rng, most=5)
        optimizer = Optimizer(graph, ["r0"])
        optimizer.choose({"r0": random_statistics(rng, graph)})
        ranges = optimizer.validity("r0")
        distances = [valid.distance for valid in ranges]
        assert distances == sorted(distances)
        found += ranges
    assert len(found) >= 10


def test_static_relations_have_no_range() -> None:
    """Statistics of static relations do not change: the plans of q2 depend on windows alone."""
    optimizer = Optimizer(q2(), ["lsnow"])
    optimizer.choose({"lsnow": KnownStatistics({"loc_name": 40.0, "coauthor": 8000.0, "name#1": 1000.0})})
    assert optimizer.validity("lsnow")
    assert all("ls" in valid.statistic for valid in optimizer.validity("lsnow"))


def test_a_fixed_plan_has_no_range() -> None:
    optimizer = Optimizer(q2(), ["lsnow"], mode="first")
    optimizer.choose({"lsnow": KnownStatistics()})
    assert optimizer.validity("lsnow") == ()


def test_ranges_are_found_with_few_costings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two costings show that most statistics have no range: at the farthest values below and above."""
    graph = clique(8)
    sources = [relation.name for relation in graph.relations]
    optimizer = Optimizer(graph, sources)
    rows = [10.0, 1000.0, 20.0, 5000.0, 30.0, 7000.0, 40.0, 50.0]
    optimizer.choose(dict.fromkeys(sources, uniform_statistics(graph, rows, 0.001)))
    searches: list[validity_ranges._Search] = []
    opened = validity_ranges._Search.__init__

    def counted(search: validity_ranges._Search, *given: Any) -> None:
        opened(search, *given)
        searches.append(search)

    monkeypatch.setattr(validity_ranges._Search, "__init__", counted)
    assert optimizer.validity("r1")
    statistics = len(optimizer.base.read_now("r1"))
    assert searches[0].costings <= 2 * statistics * 6 + 2 * validity_ranges.LIMIT * 12
    assert len(searches[0].memo.total) < len(optimizer.memo.total) / len(sources) * 1.01
