"""The estimate for a cluster: what it is fitted to, and which costs it divides among workers."""

from __future__ import annotations

import pytest

from cqels_opt.bench.cluster import Cluster, Cost, fitted, seconds

COST = Cost(fixed=0.3, row=8e-6, driver=1e-7)


def test_costs_are_found_again_in_what_they_make() -> None:
    sizes = [100_000, 500_000, 1_000_000]
    driver = [0.02 + n * COST.driver for n in sizes]  # a part of the fixed cost
    found = fitted(sizes, [COST.fixed + n * (COST.row + COST.driver) for n in sizes], driver)
    assert (found.fixed, found.row, found.driver) == pytest.approx((COST.fixed, COST.row, COST.driver))
    assert fitted([10, 10], [2.0, 2.0], [1.0, 1.0]) == Cost(0.0, 0.1, 0.1)


def test_rows_are_shared_and_the_driver_is_not() -> None:
    free = Cluster(nodes=1, cores=1, network=1e18, task=0.0, message=0.0)
    assert seconds(COST, 1_000_000, free) == pytest.approx(0.3 + 8.0 + 0.1)
    many = Cluster(network=1e18, task=0.0, message=0.0)
    assert seconds(COST, 1_000_000, many) == pytest.approx(0.3 + 8.0 / 400 + 0.1)
    starting = Cluster(network=1e18, task=0.001, message=0.0001)
    assert seconds(COST, 1_000_000, starting) == pytest.approx(0.3 + 8.0 / 400 + 0.1 + 400 * 0.001 + 3 * 400 * 0.0001)


def test_rows_cross_the_network_once() -> None:
    cluster = Cluster(nodes=2, cores=1, network=64e6, task=0.0, message=0.0)
    assert seconds(COST, 1_000_000, cluster) == pytest.approx(0.3 + 4.0 + 0.1 + 0.5)  # 64 MB at 128 MB/s
