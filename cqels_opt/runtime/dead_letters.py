"""The dead-letter file: elements that could not be read, with the reason; cut back to its committed length like answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cqels_opt.runtime.rejected_elements import Rejected, RejectSpool
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import naming


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The file of rejected elements, one JSON object per line: file, line, reason. Without a ``path`` they are not kept.

    ``refused`` are files of what was rejected before the first batch, lines of static data and of a replay, which come first;
    ``sources`` are the files of partitions.
    """

    path: Path | None
    refused: Sequence[Path]
    sources: Mapping[int, str]

    @property
    def _name(self) -> str:
        """The name of the file among the committed lengths: a run with a trace uses another file than one without."""
        return f"rejects {self.path.absolute() if self.path is not None else ''}"

    def restore(self, lengths: Mapping[str, int]) -> None:
        """Cuts the file back to its committed length. A shorter file is left as it is, because no result depends on it."""
        length = lengths.get(self._name, 0)
        first = [file for file in self.refused if file.exists()]
        if self.path is not None and (self.path.exists() or length or first):
            disk.cut_back(self.path, length)
            if not length and first:
                with naming(self.path), disk.append(self.path) as file:
                    file.writelines(map(disk.read, first))

    def put(self, rejected: Sequence[RejectSpool]) -> dict[str, int]:
        """Appends those of the tasks of a batch, one at a time; returns the length to commit."""
        if self.path is None or not (any(rejected) or self.path.exists()):
            return {}
        with naming(self.path), disk.append(self.path) as file:
            for r in chain.from_iterable(rejected):
                where = self.sources.get(r.partition, r.stream)
                record = {"file": where, "line": r.line, "reason": r.reason}
                file.write((json.dumps(record, ensure_ascii=False) + "\n").encode())
            disk.flush(file)
            return {self._name: file.tell()}

    def describe(self, bad: Rejected) -> str:
        """One of them, for a message."""
        return f"{self.sources.get(bad.partition, bad.stream)}:{bad.line}: {bad.reason}"

    def first(self, rejected: Iterable[RejectSpool]) -> str:
        """The first in the order of partitions and lines, for a message."""
        return self.describe(min((r.least for r in rejected if r.least is not None), key=lambda r: (r.partition, r.line)))
