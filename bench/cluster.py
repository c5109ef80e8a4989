"""What a batch would take on a cluster: an estimate from one core's figures and the constants of the cost model, with its assumptions.

Work a row is shared evenly by all cores (hash-partitioned shares, no skew). The driver's work a row is not shared: it merges the counts
of all tasks. Each stage is a job's floor and one more message a task; what is shuffled crosses the network once, at the sum of all
nodes' rates. Stores and slots are at hand on every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cqels_opt.plans import Constants


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds: of any batch on one core, of a row on an executor's core, and of a row on the driver."""

    fixed: float
    row: float
    driver: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines: their number, the cores of each, bytes a second of each one's network, and seconds that starting a task takes."""

    nodes: int = 50
    cores: int = 8
    network: float = 1.25e9
    task: float = 0.002


ROW_BYTES = 64
"""A binding of four variables, with its interval and multiplicity."""


def fitted(elements: Sequence[int], seconds: Sequence[float], driver: Sequence[float]) -> Cost:
    """The costs that explain batches of several sizes on one core, by least squares; ``driver`` is the part of ``seconds`` on the driver.

    Of one size nothing can be told apart: then no cost is fixed.
    """
    n, s, d = (np.asarray(values, np.float64) for values in (elements, seconds, driver))
    own = float((d / n).mean())
    if len(set(elements)) == 1:
        return Cost(0.0, float(((s - d) / n).mean()), own)
    slope, fixed = np.polyfit(n, s - d, 1)
    return Cost(max(0.0, float(fixed)), max(0.0, float(slope)), own)


def seconds(cost: Cost, elements: int, cluster: Cluster, constants: Constants, shuffled: int = 0) -> float:
    """Seconds of a batch on a cluster; ``shuffled`` rows go to where they are joined."""
    slots = cluster.nodes * cluster.cores
    stages = 3 if shuffled else 2  # ingest and evaluate; and the answers behind a shuffle
    fixed = cost.fixed + stages * slots * cluster.task + (constants.stage if shuffled else 0.0)
    moved = shuffled * (constants.shuffle / slots + ROW_BYTES / (cluster.network * cluster.nodes))
    return fixed + elements * (cost.row / slots + cost.driver) + moved
