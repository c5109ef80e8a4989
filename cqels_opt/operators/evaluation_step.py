"""A step of the frontier, as it travels to the executors: which files count, which instants are looked at, which plans run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cqels_opt.operators.rows import Ints
from cqels_opt.plans.join_methods import JoinMethod
from cqels_opt.windows.binding_slots import SlotFile

NOWHEN = np.int64(-(1 << 62))  # stands for "the instant before the first": nothing is valid at it


@dataclass(frozen=True, slots=True)
class EvaluationStep:
    """The step ``(after, upto]`` of the frontier in one batch.

    ``instants`` begins with the instant reported last (NOWHEN: none), then come those of E in the step. ``files`` are all that
    count before the step and the batch's own slots; ``dropped`` says for each stream how many elements the dropped tables held.
    """

    folder: str
    run: str  # names this run of this checkpoint, so that workers never mix two of them up
    batch: int
    after: int
    upto: int
    instants: Ints
    files: tuple[SlotFile, ...]
    dropped: Mapping[str, int]
    plans: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # block -> delta source -> canonical plan
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # block -> its delta sources, in the delta rule's order
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # block -> its filters in the order of their evaluation
    joins: Mapping[str, Mapping[str, tuple[JoinMethod | None, ...]]] = field(
        default_factory=dict
    )  # block -> source -> what does its joins
    displaced: tuple[tuple[str, int], ...] = ()  # terms that have a second id, see :class:`~cqels_opt.rdf.ids.IdScheme`
    remember: bool = True  # results of extension functions are kept until the step ends, where that pays
    looked_back: int | None = None  # the instant whose rows still count, where that is not the beginning of the step

    @property
    def path(self) -> Path:
        """The state folder."""
        return Path(self.folder)

    @property
    def ended(self) -> int:
        """Rows of windows that end by this instant do not count."""
        return self.after + 1 if self.looked_back is None else self.looked_back

    @property
    def floor(self) -> int:
        """Rows that end at or before this instant are of no use to later steps."""
        last = int(self.instants[-1])
        return last if last != NOWHEN else int(NOWHEN)

    def select(self, kind: str, stream: str = "", shape: str = "") -> list[SlotFile]:
        """The files of a kind."""
        return [
            f for f in self.files if f.kind == kind and (not stream or f.stream == stream) and (not shape or f.shape == shape)
        ]
