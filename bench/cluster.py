"""Estimates the time of a batch on a cluster from single-core measurements.

Assumptions: work per row is balanced over all cores (no skew). The CPU time of the driver's process is not parallel: a fixed part, and one
per row. A batch is one job, whose tasks are started one after the other, and get one message per stage. Each row crosses the network once,
at the sum of all nodes' rates. Stores and slots are local on every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds: of any batch on one core, of a row on an executor's core, and of a row on the driver."""

    fixed: float
    row: float
    driver: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines: their number, cores, network bytes per second of each, and the driver's seconds to start a task, and for a message to it
    and its report (measured: 0.07 to 0.10 ms).
    """

    nodes: int = 50
    cores: int = 8
    network: float = 1.25e9
    task: float = 0.002
    message: float = 0.0001


ROW_BYTES = 64
"""A binding of four variables with its interval and multiplicity."""
STAGES = 3
"""Ingest, joins, answers."""


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


def seconds(cost: Cost, elements: int, cluster: Cluster) -> float:
    """Seconds of a batch on a cluster."""
    slots = cluster.nodes * cluster.cores
    fixed = cost.fixed + slots * (cluster.task + STAGES * cluster.message)
    moved = elements * ROW_BYTES / (cluster.network * cluster.nodes)
    return fixed + elements * (cost.row / slots + cost.driver) + moved
