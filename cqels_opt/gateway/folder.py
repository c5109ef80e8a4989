"""The writer of a live folder: files appear atomically and durably, and no name is ever reused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cqels_opt.errors import InputError
from cqels_opt.rdf.payloads import Decoded, Payload, decode
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import naming

ELEMENT = "urn:cqels-opt:element:"
POSITION = ".position.json"


class LiveFolder:
    """Writes messages as elements into a folder, one file per batch; unreadable messages go to ``refused`` with the reason.

    One process writes to a folder. Files are numbered by the clock, so that a name is new even if old files have been deleted:
    Spark never reads a name twice.
    """

    def __init__(self, path: Path, payload: Payload, refused: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path, self.payload, self._clock = path, payload, clock
        try:
            disk.make_folder(path)
        except FileExistsError as error:
            raise InputError(f"{path}: not a folder") from error
        self.refused = refused or path / "_refused.jsonl"
        for partial in path.glob(".*.part"):  # of a killed process
            disk.delete(partial)
        numbers = (file.name.split(".")[0] for file in path.glob("[0-9]*.ndjson"))
        self._last = max((int(number) for number in numbers if number.isdecimal()), default=0)

    @property
    def position(self) -> str | None:
        """The last source position passed to :meth:`write`; None in a new folder."""
        file = self.path / POSITION
        if not file.exists():
            return None
        try:
            return str(json.loads(disk.read(file))["position"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file}: it is damaged ({error}); remove it to begin where the source now is") from error

    def write(self, values: Sequence[bytes], times: Sequence[int], position: str | None = None) -> tuple[int, int]:
        """Writes messages durably; returns the numbers of elements and of refusals. ``times`` (ms) are the arrival times."""
        number = self._last = max(self._last + 1, int(self._clock() * 1_000_000))
        found = decode(self.payload, values, times, [f"g{number}x{i}" for i in range(len(values))])
        if found.refused:
            self._refuse([(times[r.message], r.reason, values[r.message]) for r in found.refused])
        elements = 0
        if len(found.t):
            lines, elements = _lines(found, number)
            self._replace(f"{number:020}.ndjson", lines)
        if position is not None:
            self._replace(POSITION, json.dumps({"position": position}))
        return elements, len(found.refused)

    def _replace(self, name: str, text: str) -> None:
        """Writes a file atomically and durably."""
        disk.write_atomically(self.path / name, text.encode())

    def _refuse(self, refusals: Sequence[tuple[int, str, bytes]]) -> None:
        with naming(self.refused), disk.append(self.refused) as file:
            for when, reason, value in refusals:
                record = {"received": when, "reason": reason, "value": value.decode(errors="backslashreplace")}
                file.write((json.dumps(record, ensure_ascii=False) + "\n").encode())
            disk.flush(file)


def _lines(found: Decoded, number: int) -> tuple[str, int]:
    """The rows as lines, the rows of an element contiguous, and the number of elements.

    The triples of an element without a graph share a generated one, because only lines with equal ``g`` and ``t`` are one
    element.
    """
    of = found.numbers()
    sizes = np.bincount(of)
    lines: list[str] = []
    columns: list[Any] = [column.to_pylist() for column in (found.s, found.p, found.o, found.g)]
    s, p, o, g = columns
    for i in np.argsort(of, kind="stable").tolist():
        graph = g[i] or (f"<{ELEMENT}{number}-{of[i]}>" if sizes[of[i]] > 1 else None)
        row = {"s": s[i], "p": p[i], "o": o[i], **({"g": graph} if graph else {}), "t": int(found.t[i])}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines), len(sizes)
