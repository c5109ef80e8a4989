"""The dictionary of a store: which text does a hashed id stand for?

Sorted ids, offsets and one UTF-8 blob, memory-mapped, in parts of consecutive id ranges so that executors can write them
independently. Inline ids are not in it: they hold their term themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.lod.files import FileEntry, map_array, write_array
from cqels_opt.rdf.ids import Ids, check_collisions, inline_texts, is_inline


@dataclass(frozen=True, slots=True)
class PartEntry:
    """One part in the store's header: its folder-relative name, its terms, its first and last id, and its files."""

    name: str
    terms: int
    first: int
    last: int
    files: dict[str, FileEntry]


def write_part(folder: Path, name: str, ids: Ids, texts: pa.StringArray) -> PartEntry | None:
    """Write the distinct terms of one id range; None if there is none. Different texts of one id raise CollisionError."""
    check_collisions(ids, texts)
    distinct, first = np.unique(ids, return_index=True)
    hashed = ~is_inline(distinct)
    distinct, first = distinct[hashed], first[hashed]
    if not len(distinct):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    kept = texts.take(first).cast(pa.large_string())
    _, offsets, blob = kept.buffers()
    assert offsets is not None and blob is not None
    starts = np.frombuffer(memoryview(offsets), np.int64, len(kept) + 1)
    files = write_array(folder, f"{name}.ids.npy", distinct)
    files |= write_array(folder, f"{name}.starts.npy", starts)
    files |= write_array(folder, f"{name}.text.npy", np.frombuffer(memoryview(blob), np.uint8, int(starts[-1])))
    return PartEntry(name, len(distinct), int(distinct[0]), int(distinct[-1]), files)


class Dictionary:
    """The mapped parts of a dictionary."""

    def __init__(self, ids: Sequence[Ids], texts: Sequence[pa.StringArray | pa.LargeStringArray]) -> None:
        self.parts = tuple(zip(ids, texts))
        self._lasts = np.array([part[-1] for part in ids], np.int64)
        self.terms = sum(len(part) for part in ids)

    @classmethod
    def open(cls, folder: Path, entries: Sequence[PartEntry]) -> Dictionary:
        """Map the parts that a store's header names."""
        ids, texts = [], []
        for entry in sorted(entries, key=lambda entry: entry.first):
            arrays = [map_array(folder / f"{entry.name}.{array}.npy", entry.files) for array in ("ids", "starts", "text")]
            if len(arrays[0]) != entry.terms or len(arrays[1]) != entry.terms + 1:
                raise StoreError(
                    f"{folder / entry.name} does not have its {entry.terms} terms: the store is damaged, load it again"
                )
            ids.append(arrays[0])
            starts, text = (pa.py_buffer(array.data) for array in arrays[1:])
            try:
                texts.append(pa.LargeStringArray.from_buffers(entry.terms, starts, text))
            except pa.ArrowInvalid as error:
                raise StoreError(f"{folder / entry.name}.starts.npy is damaged ({error}): load the store again") from error
        return cls(ids, texts)

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """For each id the part and the position in it, (-1, -1) where the dictionary does not have it."""
        parts = np.full(len(ids), -1, np.int64)
        positions = np.full(len(ids), -1, np.int64)
        of = np.searchsorted(self._lasts, ids)
        for number, (known, _) in enumerate(self.parts):
            asked = np.flatnonzero(of == number)
            if len(asked):
                at = np.searchsorted(known, ids[asked])
                hits = known[at] == ids[asked]
                parts[asked[hits]] = number
                positions[asked[hits]] = at[hits]
        return parts, positions

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Which ids have a text, in the dictionary or inline."""
        return is_inline(ids) | (self.find(ids)[0] >= 0)

    def decode(self, ids: Ids) -> list[str | None]:
        """The texts of ids; None where unknown."""
        texts = inline_texts(ids)
        parts, positions = self.find(ids)
        for number, (_, known) in enumerate(self.parts):
            asked = np.flatnonzero(parts == number)
            if len(asked):
                for place, text in zip(asked.tolist(), known.take(positions[asked]).to_pylist()):
                    texts[place] = text
        return texts
