"""The statistics of ``cqels_opt.stats`` are what this room reads, though neither imports the other."""

from __future__ import annotations

import inspect

import pytest

from cqels_opt.plans import KnownStatistics, Optimizer, StatisticKey, Statistics
from cqels_opt.stats.block_statistics import Key, StatisticsView

from .test_optimizer import figure_3, figure_3_graph


@pytest.mark.parametrize("method", ["cardinality", "distinct", "join_size", "selectivity"])
def test_a_view_has_the_methods_of_the_protocol(method: str) -> None:
    wanted, found, plain = (
        list(inspect.signature(getattr(c, method)).parameters) for c in (Statistics, StatisticsView, KnownStatistics)
    )
    assert wanted == found == plain


def test_the_keys_of_both_rooms_are_the_same() -> None:
    assert Key("join_size", ("a", "b", "x")) == StatisticKey("join_size", ("a", "b", "x"))
    assert str(Key("join_size", ("a", "b", "x"))) == str(StatisticKey("join_size", ("a", "b", "x")))


def test_changed_join_sizes_may_be_named_in_either_order() -> None:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], cost_model="paper")
    optimizer.choose({"lsnow": figure_3(0.0)})

    def priced_again(*changed: Key) -> int:
        return optimizer.memo.refresh(optimizer.base.read({"lsnow": figure_3(400.0)}, changed))

    assert priced_again(Key("cardinality", ("lsnow",)), Key("cardinality", ("elsewhere",))) == 0
    assert priced_again(Key("join_size", ("coauthor", "lsnow", "person1"))) > 0
