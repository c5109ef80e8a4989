"""The physical join methods, one per file; :data:`METHODS` lists them. An installed package adds one (docs/extending.md)."""

from __future__ import annotations

from cqels_opt.plans.join_methods.broadcast import Broadcast
from cqels_opt.plans.join_methods.method import JoinInputs, JoinMethod, Machine, PhysicalCostModel, RelationPlacement
from cqels_opt.plans.join_methods.nested_loop import NestedLoop
from cqels_opt.plans.join_methods.partitioned_probe import PartitionedProbe
from cqels_opt.plans.join_methods.replicated_probe import ReplicatedProbe
from cqels_opt.plans.join_methods.shuffle_hash import ShuffleHash
from cqels_opt.plans.join_methods.sort_merge import SortMerge

__all__ = [
    "BROADCAST",
    "CHOSEN_FROM",
    "LOOP",
    "METHODS",
    "PARTITIONED",
    "REPLICATED",
    "SHUFFLE_HASH",
    "SORT_MERGE",
    "JoinInputs",
    "JoinMethod",
    "Machine",
    "PhysicalCostModel",
    "RelationPlacement",
]

REPLICATED, LOOP, PARTITIONED = ReplicatedProbe(), NestedLoop(), PartitionedProbe()
SHUFFLE_HASH, SORT_MERGE, BROADCAST = ShuffleHash(), SortMerge(), Broadcast()

METHODS: tuple[JoinMethod, ...] = (REPLICATED, LOOP, PARTITIONED, SHUFFLE_HASH, SORT_MERGE, BROADCAST)

CHOSEN_FROM: tuple[JoinMethod, ...] = (REPLICATED, PARTITIONED, SHUFFLE_HASH, SORT_MERGE)
"""The methods that the planner chooses from by cost; a broadcast is a job of its own, and the jobs of a batch are bounded."""
