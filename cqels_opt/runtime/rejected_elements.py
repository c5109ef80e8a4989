"""Rejected elements of a task of the first stage: counted in memory; beyond a few they are spooled to a file of the task.

A batch may have more rejected elements than valid ones. So the driver gets counts, a few samples, and the name of the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import naming

MOST_HELD = 256
"""The maximum number in memory; the others are in the file."""

SAMPLE = 3


@dataclass(frozen=True, slots=True)
class Rejected:
    """A triple that cannot be read: its place and the reason."""

    stream: str
    partition: int
    line: int
    reason: str


@dataclass(slots=True)
class RejectSpool:
    """The rejected elements of a task. ``folder`` is the checkpoint's; ``path`` is the file in it, which exists if ``spooled``."""

    folder: str = ""
    path: str = ""
    counts: Counter[str] = field(default_factory=Counter)  # by stream
    sample: list[Rejected] = field(default_factory=list)  # the first
    least: Rejected | None = None  # by partition and line
    spooled: bool = False
    held: list[Rejected] = field(default_factory=list)

    def append(self, rejected: Rejected) -> None:
        """One more."""
        self.counts[rejected.stream] += 1
        if len(self.sample) < SAMPLE:
            self.sample.append(rejected)
        if self.least is None or (rejected.partition, rejected.line) < (self.least.partition, self.least.line):
            self.least = rejected
        if len(self.held) >= MOST_HELD:
            path = Path(self.folder) / self.path
            with naming(path), disk.append(path) if self.spooled else disk.create(path) as file:
                file.write("".join(json.dumps(asdict(one)) + "\n" for one in self.held).encode())
            self.spooled = True
            self.held.clear()
        self.held.append(rejected)

    def extend(self, rejected: Iterable[Rejected]) -> None:
        """More of them."""
        for one in rejected:
            self.append(one)

    def __iter__(self) -> Iterator[Rejected]:
        """All of them, in their order of arrival; the file is read line by line."""
        if self.spooled:
            with disk.opened(Path(self.folder) / self.path) as file:
                for line in file:
                    yield Rejected(**json.loads(line))
        yield from self.held

    def __len__(self) -> int:
        return self.counts.total()
