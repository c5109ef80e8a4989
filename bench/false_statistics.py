"""Runs with statistics that are false on purpose: what they cost in rows, over the best plans in hindsight.

All counters that plans read are either shuffled among the relations (each kind of statistic among its own), or multiplied by a thousand
or by a thousandth, by lot. A counter is false in the same way in all batches, so that only what the engine observes can correct it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias
from unittest.mock import patch

import numpy as np

from cqels_opt.bench.local import Prepared, Ran
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.statistics_adapters import ForwardedStatistics
from cqels_opt.plans import Statistics
from cqels_opt.plans.statistics import Key, StatisticKey

FACTOR = 1000.0


@dataclass(frozen=True, slots=True)
class FalseStatistics(ForwardedStatistics):
    """The statistics of a ``view``: each is read under the name that ``instead`` gives it, and multiplied by its ``factors``."""

    instead: Mapping[Key, StatisticKey]
    factors: Mapping[Key, float]

    def cardinality(self, relation: str) -> float | None:
        """See :class:`Statistics`."""
        return self._false(StatisticKey("cardinality", (relation,)))

    def distinct(self, relation: str, variable: str) -> float | None:
        """See :class:`Statistics`."""
        return self._false(StatisticKey("distinct", (relation, variable)))

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """See :class:`Statistics`; symmetric."""
        return self._false(StatisticKey("join_size", (*sorted((left, right)), variable)))

    def _false(self, key: StatisticKey) -> float | None:
        value = self.instead.get(key, key).read(self.view)
        return None if value is None else value * self.factors.get(key, 1.0)


Falsify: TypeAlias = Callable[[np.random.Generator, Statistics, list[StatisticKey]], FalseStatistics]
"""Makes the statistics of these names false, by lot."""


def shuffled(rng: np.random.Generator, view: Statistics, keys: list[StatisticKey]) -> FalseStatistics:
    """Each kind of statistic shuffled among the relations that have it."""
    instead: dict[Key, StatisticKey] = {}
    for kind in dict.fromkeys(key.kind for key in keys):
        mine = [key for key in keys if key.kind == kind]
        instead |= {key: mine[place] for key, place in zip(mine, rng.permutation(len(mine)).tolist())}
    return FalseStatistics(view, instead, {})


def scaled(rng: np.random.Generator, view: Statistics, keys: list[StatisticKey]) -> FalseStatistics:
    """Each statistic times a thousand or a thousandth."""
    powers = rng.choice([-1.0, 1.0], len(keys)).tolist()
    return FalseStatistics(view, {}, {key: FACTOR**power for key, power in zip(keys, powers)})


FALSIFIED: Mapping[str, Falsify] = {"shuffled statistics": shuffled, "statistics scaled by 10^±3": scaled}


@contextmanager
def falsified(falsify: Falsify, seed: int) -> Iterator[None]:
    """All plans are chosen from false statistics."""
    statistics_of = BlockPlanner.source_statistics

    def false_statistics(planner: BlockPlanner) -> dict[str, Statistics]:
        return {
            source: falsify(np.random.default_rng(seed), found, _keys(planner))
            for source, found in statistics_of(planner).items()
        }

    with patch.object(BlockPlanner, "source_statistics", false_statistics):
        yield


def run_with_false(query: Prepared, name: str, falsify: Falsify, seed: int, options: PlannerOptions) -> Ran:
    """A run in which all plans are chosen from false statistics."""
    with falsified(falsify, seed):
        return query.run(name, options)


def _keys(planner: BlockPlanner) -> list[StatisticKey]:
    """The names of the statistics that the plans of a block read, but the shares that filters keep."""
    keys = [key for key in planner.optimizer.base.keys if key.kind != "selectivity"]
    return [StatisticKey(key.kind, (*sorted(key.names[:2]), key.names[2])) if key.kind == "join_size" else key for key in keys]
