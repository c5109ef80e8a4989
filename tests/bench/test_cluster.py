"""The estimate for a cluster: what it is fitted to, and which costs it divides among workers."""

from __future__ import annotations

import pytest

from cqels_opt.bench.cluster import Cluster, Cost, fitted, seconds
from cqels_opt.plans import Constants

COST = Cost(fixed=0.3, row=8e-6, driver=1e-7)


def test_costs_are_found_again_in_what_they_make() -> None:
    sizes = [100_000, 500_000, 1_000_000]
    driver = [0.02 + n * COST.driver for n in sizes]  # a part of the fixed cost
    found = fitted(sizes, [COST.fixed + n * (COST.row + COST.driver) for n in sizes], driver)
    assert (found.fixed, found.row, found.driver) == pytest.approx((COST.fixed, COST.row, COST.driver))
    assert fitted([10, 10], [2.0, 2.0], [1.0, 1.0]) == Cost(0.0, 0.1, 0.1)


def test_rows_are_shared_and_the_driver_is_not() -> None:
    free = Cluster(nodes=1, cores=1, task=0.0)
    assert seconds(COST, 1_000_000, free, Constants()) == pytest.approx(0.3 + 8.0 + 0.1)
    many = Cluster(nodes=50, cores=8, task=0.0)
    assert seconds(COST, 1_000_000, many, Constants()) == pytest.approx(0.3 + 8.0 / 400 + 0.1)
    assert seconds(COST, 1_000_000, Cluster(task=0.001), Constants()) == pytest.approx(0.3 + 8.0 / 400 + 0.1 + 2 * 400 * 0.001)


def test_a_shuffle_costs_a_stage_and_the_network() -> None:
    cluster = Cluster(nodes=2, cores=1, network=64e6, task=0.0)
    without, moved = (seconds(COST, 1_000_000, cluster, Constants(), shuffled=rows) for rows in (0, 1_000_000))
    assert moved - without == pytest.approx(0.1 + 0.5 + 0.5)  # the stage, 1e6 rows of 1 µs on two cores, 64 MB at 128 MB/s
