"""Estimates the time of a batch on a cluster from single-core measurements and the constants of the cost model.

Assumptions: work per row is balanced over all cores (hash-partitioned shares, no skew). The CPU time of the driver's process is not
parallel: a fixed part, and one per row. Each stage costs a job's overhead and one message per task; shuffled rows cross the network
once, at the sum of all nodes' rates. Stores and slots are local on every node.
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
    """Machines: their number, cores, network bytes per second of each, and the seconds to start a task."""

    nodes: int = 50
    cores: int = 8
    network: float = 1.25e9
    task: float = 0.002


ROW_BYTES = 64
"""A binding of four variables with its interval and multiplicity."""


def fitted(elements: Sequence[int], seconds: Sequence[float], driver: Sequence[float]) -> Cost:
    """The costs that fit batches of several sizes on one core, by least squares; ``driver`` is the driver's part of ``seconds``.

    With a single size no fixed cost can be determined: it is 0.
    """
    n, s, d = (np.asarray(values, np.float64) for values in (elements, seconds, driver))
    if len(set(elements)) == 1:
        return Cost(0.0, float(((s - d) / n).mean()), float((d / n).mean()))
    (whole, fixed), (own, _) = np.polyfit(n, s, 1), np.polyfit(n, d, 1)
    own = min(max(0.0, float(own)), max(0.0, float(whole)))
    return Cost(max(0.0, float(fixed)), max(0.0, float(whole)) - own, own)


def seconds(cost: Cost, elements: int, cluster: Cluster, constants: Constants, shuffled: int = 0) -> float:
    """Seconds of a batch on a cluster; ``shuffled`` is the number of shuffled rows."""
    slots = cluster.nodes * cluster.cores
    stages = 3 if shuffled else 2  # ingest, evaluate, and with a shuffle the answers
    fixed = cost.fixed + stages * slots * cluster.task + (constants.stage if shuffled else 0.0)
    moved = shuffled * (constants.shuffle / slots + ROW_BYTES / (cluster.network * cluster.nodes))
    return fixed + elements * (cost.row / slots + cost.driver) + moved
