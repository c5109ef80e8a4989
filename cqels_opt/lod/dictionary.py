"""The dictionary of a store: the texts of hashed ids.

Sorted ids, offsets and one UTF-8 blob, memory-mapped, in parts of consecutive id ranges so that executors can write them
independently. Updates add *layers* of such parts, which are merged when they are of like size. Inline ids contain their term and
are not in the dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.lod.files import FileEntry, check_size, file_sizes, map_array, write_array
from cqels_opt.lod.key_search import KeySearch
from cqels_opt.lod.order import run_starts
from cqels_opt.rdf.ids import Ids, check_collisions, inline_texts, is_inline
from cqels_opt.storage.verified_array import VerifiedArray, unverified

#: The folder of the dictionary in the data of a store.
DICTIONARY: Final = "dictionary"

#: The most terms of a dictionary whose parts have directories and flags of their ids.
MOST_TERMS: Final = 1 << 21

#: Brings files of a store, by their paths in its data, to this machine.
Fetch: TypeAlias = Callable[[Mapping[str, FileEntry]], None]


@dataclass(frozen=True, slots=True)
class PartEntry:
    """One part in the store's header: its folder-relative name, its terms, its first and last id, its files, and its layer."""

    name: str
    terms: int
    first: int
    last: int
    files: dict[str, FileEntry]
    layer: int = 0


def distinct_terms(ids: Ids, texts: pa.StringArray) -> tuple[Ids, pa.StringArray]:
    """The different terms whose ids are hashes, in the order of ids. Different texts of one id raise CollisionError."""
    order = np.argsort(ids)
    ordered = ids[order]
    check_collisions(ids, texts, order)
    first = run_starts((ordered,))
    first = first[~is_inline(ordered[first])]
    return ordered[first], texts.take(order[first])


def write_part(folder: Path, name: str, ids: Ids, texts: pa.StringArray) -> PartEntry | None:
    """Write the distinct terms of one id range; None if there is none. Different texts of one id raise CollisionError."""
    distinct, distinct_texts = distinct_terms(ids, texts)
    if not len(distinct):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    kept = distinct_texts.cast(pa.large_string())
    _, offsets, blob = kept.buffers()
    assert offsets is not None and blob is not None
    starts = np.frombuffer(memoryview(offsets), np.int64, len(kept) + 1)
    files = write_array(folder, f"{name}.ids.npy", distinct)
    files |= write_array(folder, f"{name}.starts.npy", starts)
    files |= write_array(folder, f"{name}.text.npy", np.frombuffer(memoryview(blob), np.uint8, int(starts[-1])))
    return PartEntry(name, len(distinct), int(distinct[0]), int(distinct[-1]), files)


class DictionaryPart:
    """One part, mapped when it is first used."""

    def __init__(self, folder: Path, entry: PartEntry, fetch: Fetch | None, search: KeySearch) -> None:
        self.entry, self._folder, self._fetch, self.search = entry, folder, fetch, search

    @cached_property
    def _mapped(self) -> tuple[Ids, Ids, NDArray[np.uint8]]:
        entry = self.entry
        if self._fetch is not None:
            self._fetch({f"{DICTIONARY}/{name}": file for name, file in entry.files.items()})
        arrays = [map_array(self._folder / f"{entry.name}.{array}.npy", entry.files) for array in ("ids", "starts", "text")]
        if len(arrays[0]) != entry.terms or len(arrays[1]) != entry.terms + 1:
            raise StoreError(
                f"{self._folder / entry.name} does not have its {entry.terms} terms: the store is damaged, load it again"
            )
        return arrays[0], arrays[1], arrays[2]

    @property
    def ids(self) -> Ids:
        """The ids, sorted."""
        return self._mapped[0]

    @property
    def texts(self) -> pa.LargeStringArray:
        """The text of each id."""
        for array in self._mapped:
            np.asarray(array)  # verifies all of it
        return self._texts

    def texts_at(self, positions: Ids) -> pa.LargeStringArray:
        """The texts of the ids at these positions."""
        starts: Any = self._mapped[1]
        text: Any = self._mapped[2]
        if isinstance(text, VerifiedArray):
            text.verify_spans(starts[positions], starts[positions + 1])
        elif isinstance(starts, VerifiedArray):
            starts.verify_spans(positions, positions + 2)
        found: Any = self._texts.take(positions)
        return cast("pa.LargeStringArray", found)

    @cached_property
    def _texts(self) -> pa.LargeStringArray:
        """The texts, verified unless their file is large."""
        starts, text = (pa.py_buffer(unverified(array).data) for array in self._mapped[1:])
        return cast("pa.LargeStringArray", pa.LargeStringArray.from_buffers(self.entry.terms, starts, text))


class Dictionary:
    """A dictionary in parts. No file is read before it is used, so the time to open it does not depend on the number of terms."""

    def __init__(self, folder: Path, entries: Sequence[PartEntry], fetch: Fetch | None = None) -> None:
        ordered = sorted(entries, key=lambda entry: (entry.layer, entry.first))
        self.terms = sum(entry.terms for entry in ordered)
        most = MOST_TERMS if self.terms <= MOST_TERMS else 0  # of a large dictionary, all parts together would take much memory
        self.parts = tuple(DictionaryPart(folder, entry, fetch, KeySearch(most)) for entry in ordered)
        layers = np.array([entry.layer for entry in ordered], np.int64)
        self._lasts = [
            (int(np.searchsorted(layers, layer)), np.array([entry.last for entry in ordered if entry.layer == layer], np.int64))
            for layer in np.unique(layers).tolist()
        ]

    @classmethod
    def open(cls, folder: Path, entries: Sequence[PartEntry], fetch: Fetch | None = None) -> Dictionary:
        """The dictionary of a store's header; its files exist with the recorded sizes, unless they have not been fetched yet."""
        if fetch is None:
            sizes = file_sizes(folder)
            for entry in entries:
                for name, (size, _) in entry.files.items():
                    if sizes.get(name) != size:
                        check_size(folder / name, entry.files)
        return cls(folder, entries, fetch)

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """For each id its part and its position in the part; (-1, -1) if the dictionary does not have it."""
        parts = np.full(len(ids), -1, np.int64)
        positions = np.full(len(ids), -1, np.int64)
        hashed = ~is_inline(ids)
        for first, lasts in self._lasts:
            place = np.searchsorted(lasts, ids)
            asked_of = np.where(hashed & (parts < 0) & (place < len(lasts)), first + place, -1)
            for number, part, asked in self._asked(asked_of):
                hits, at = part.search.find(part.ids, ids.take(asked))
                parts[asked.take(hits)] = number
                positions[asked.take(hits)] = at
        return parts, positions

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Which ids have a text, in the dictionary or inline."""
        return is_inline(ids) | (self.find(ids)[0] >= 0)

    def compare(self, ids: Ids, texts: pa.StringArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which ids have a text, in the dictionary or inline; and which have another one than that in ``texts``."""
        parts, positions = self.find(ids)
        other = np.zeros(len(ids), bool)
        for _, part, asked in self._asked(parts):
            known = part.texts_at(positions[asked]).cast(pa.string())
            other[asked] = pc.not_equal(known, texts.take(asked)).to_numpy(zero_copy_only=False)
        return is_inline(ids) | (parts >= 0), other

    def decode(self, ids: Ids) -> list[str | None]:
        """The texts of ids; None if unknown."""
        texts = inline_texts(ids)
        parts, positions = self.find(ids)
        for _, part, asked in self._asked(parts):
            for place, text in zip(asked.tolist(), part.texts_at(positions[asked]).to_pylist()):
                texts[place] = text
        return texts

    def found(self, ids: Ids) -> tuple[Ids, pa.StringArray]:
        """The places of the ids that the dictionary has, and their texts."""
        numbers, positions = self.find(ids)
        asked = [(places, part.texts_at(positions[places]).cast(pa.string())) for _, part, places in self._asked(numbers)]
        places = np.concatenate([np.empty(0, np.int64), *(places for places, _ in asked)])
        texts: Any = pa.concat_arrays([pa.array([], pa.string()), *(texts for _, texts in asked)])
        return places, texts

    def _asked(self, numbers: Ids) -> Iterator[tuple[int, DictionaryPart, Ids]]:
        """The parts with these numbers, and the positions of each number; numbers of no part are left out."""
        for number in np.unique(numbers).tolist():
            if 0 <= number < len(self.parts):
                yield number, self.parts[number], np.flatnonzero(numbers == number)
