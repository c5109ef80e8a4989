"""A step of the frontier, as the driver sends it to the executors: the files that count, the instants to report, the plans to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from cqels_opt.operators.rows import Ints
from cqels_opt.plans import DeltaRule, Plan, Split
from cqels_opt.plans.join_methods import JoinMethod
from cqels_opt.windows.binding_slots import SlotFile

Methods: TypeAlias = "tuple[JoinMethod | None, ...]"
"""The join method of each operator of a plan; None where the runner decides."""

Limits: TypeAlias = "tuple[float, ...]"
"""The most rows that each operator of a plan may give before its delta is planned again (infinity: no limit)."""

T = TypeVar("T")

NO_INSTANT = np.int64(-(1 << 62))  # the instant before the first: nothing is valid at it


@lru_cache(64)
def _path(folder: str) -> Path:
    return Path(folder)


class StepFiles(tuple[SlotFile, ...]):
    """The files of a step, indexed. All queries of a batch have the same object, so the index is made once."""

    _by_kind: dict[tuple[str, str, str], list[SlotFile]]
    _derived: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return StepFiles, (tuple(self),)

    def of(self, kind: str, stream: str, shape: str) -> list[SlotFile]:
        """The files of a kind, a stream and a shape; an empty text matches any."""
        if "_by_kind" not in self.__dict__:
            self._by_kind = {}
            for f in self:
                for key in {(f.kind, a, b): None for a in (f.stream, "") for b in (f.shape, "")}:
                    self._by_kind.setdefault(key, []).append(f)
        return [*self._by_kind.get((kind, stream, shape), ())]

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """What is made of the files once, under a name."""
        if "_derived" not in self.__dict__:
            self._derived = {}
        if name not in self._derived:
            self._derived[name] = make()
        return cast("T", self._derived[name])


@dataclass(frozen=True, slots=True)
class EvaluationStep:
    """The step ``(after, upto]`` of the frontier in one batch.

    ``instants`` begins with the instant reported last (NO_INSTANT: none); those of E in the step follow. ``files`` are all files that
    count before the step, and the batch's own slots; ``dropped`` has the number of elements in the dropped tables of each stream.
    """

    folder: str
    run: str  # the name of this run of this checkpoint: it keeps caches of workers apart; all queries of the run share them
    batch: int
    after: int
    upto: int
    instants: Ints
    files: StepFiles
    dropped: Mapping[str, int]
    plans: Mapping[str, Mapping[str, Plan | Split]] = field(default_factory=dict)  # by block and delta source
    rules: Mapping[str, DeltaRule] = field(default_factory=dict)  # by block
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by block: its filters in the order of their evaluation
    joins: Mapping[str, Mapping[str, Methods]] = field(default_factory=dict)  # by block and delta source
    limits: Mapping[str, Mapping[str, Limits]] = field(default_factory=dict)  # by block and delta source
    displaced: tuple[tuple[str, int], ...] = ()  # terms that have a second id, see :class:`~cqels_opt.rdf.ids.IdScheme`
    remember: bool = True  # whether results of extension functions are kept until the step ends, where that pays off
    expired_by: int | None = None  # rows that end by this instant do not count; None: those that end by the beginning of the step
    program: str = ""  # whose step it is, for caches of what only one query has

    @property
    def path(self) -> Path:
        """The state folder."""
        return _path(self.folder)

    @property
    def ended(self) -> int:
        """Rows of windows that end by this instant do not count."""
        return self.after + 1 if self.expired_by is None else self.expired_by

    @property
    def floor(self) -> int:
        """Later steps do not need rows that end at or before this instant."""
        return int(self.instants[-1])

    def select(self, kind: str, stream: str = "", shape: str = "") -> list[SlotFile]:
        """The files of a kind."""
        return self.files.of(kind, stream, shape)

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """What is made of the files, once for all queries of a batch."""
        return self.files.derived(name, make)
