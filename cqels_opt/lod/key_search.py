"""The search for probes among the sorted, distinct keys of an index: a binary search, and what shortens it.

Keys are ids or mixed keys, which are hashes, or contain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cqels_opt.lod.fan_out import FanOut
from cqels_opt.lod.order import Ids, is_sorted

SORTED_PROBES: Final = 1000
"""From this number of probes on they are sorted first: neighbours in the keys then share pages and cache lines."""

FEW_KEYS: Final = 8
"""With this many sorted probes a key, the keys are searched in the probes instead."""

PARTS_PER_KEY: Final = 2
"""The parts of a directory of keys per key (or up to twice as many): with more it takes longer to make than it saves."""
MOST_PARTS: Final = 1 << 23
"""The most parts of a directory: 32 MB."""
MOST_KEYS: Final = 24_000_000
"""The most keys that have a directory."""
LEAST_SEARCHED: Final = 1 << 13
MOST_SEARCHED: Final = 1 << 18
"""A directory is made after one probe per key, but not before the first and not after the second of these numbers of probes: to do without
it has then cost about as much as to make it."""
LONGEST: Final = 16
"""A directory is not used if some part has more keys."""

FLAGS_PER_KEY: Final = 4
"""The flags per key (or up to twice as many) that exclude probes."""
MOST_FLAGGED: Final = 1 << 22
"""The most keys that have flags."""
FEW_PROBES: Final = 512
"""For fewer probes there is only a binary search."""
RARE: Final = 4
"""Flags are used if the last probes were at least this multiple of those that were keys."""

BLOCK: Final = 1 << 15
"""Rows whose numbers are mixed at a time: larger arrays would leave the processor's cache between two operations."""

_NOWHERE: Final = np.empty(0, np.int64)
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mix(columns: Sequence[Ids]) -> Ids:
    """One well-mixed 64-bit number per row, in the order of the columns; computed in blocks of rows that stay in the processor's cache."""
    first, second, third = _MIX
    given = [np.asarray(column).view(np.uint64) for column in columns]
    mixed = np.zeros(len(given[0]), np.uint64)
    shifted = np.empty(min(BLOCK, len(mixed)), np.uint64)
    for at in range(0, len(mixed), BLOCK):
        block = slice(at, at + BLOCK)
        state = mixed[block]
        high = shifted[: len(state)]
        for column in given:
            state ^= column[block]
            state *= first
            state += second
            state ^= np.right_shift(state, np.uint64(29), out=high)
            state *= third
            state ^= np.right_shift(state, np.uint64(32), out=high)
    return mixed.view(np.int64)


class KeyDirectory:
    """Finds keys without a binary search: the place of the first key of each of many equal parts of the range of keys.

    Ids and mixed keys are hashes, so nearly all parts have one key or none.
    """

    def __init__(self, keys: Ids) -> None:
        values, span = keys.view(np.uint64), int(keys[-1]) - int(keys[0])
        self._keys, self._least = keys, values[0]
        self._shift = np.uint64(max(0, span.bit_length() - min(len(keys) * PARTS_PER_KEY, MOST_PARTS - 1).bit_length()))
        self._parts = (span >> int(self._shift)) + 1
        counts = np.zeros(self._parts, np.int32)
        for at in range(0, len(keys), BLOCK):
            parts = ((values[at : at + BLOCK] - self._least) >> self._shift).view(np.int64)
            counts[int(parts[0]) : int(parts[-1]) + 1] += np.bincount(parts - parts[0]).astype(np.int32)
        self._begins = np.zeros(self._parts + 2, np.int32)  # what is beyond the range has a part without keys
        np.cumsum(counts, out=self._begins[1:-1])
        self._begins[-1] = self._begins[-2]
        self.longest = int(counts.max())

    def find(self, probe: Ids) -> tuple[Ids, Ids]:
        """The probes that are keys, by their places, and the place of the key of each."""
        part = probe.view(np.uint64) - self._least
        part >>= self._shift
        part = np.minimum(part, np.uint64(self._parts), out=part).view(np.int64)
        place = self._begins.take(part)
        part += 1
        some = np.flatnonzero(self._begins.take(part) > place)
        place, wanted = place.take(some), probe.take(some)
        key = self._keys.take(place)
        for _ in range(1, self.longest):
            behind = np.flatnonzero(key < wanted)
            following = np.minimum(place.take(behind) + 1, len(self._keys) - 1)
            place[behind] = following
            key[behind] = self._keys.take(following)
        found = np.flatnonzero(key == wanted)
        return some.take(found), place.take(found)


class KeyFlags:
    """Excludes most probes that are no keys: the low bits that keys have, which are those of hashes or of numbers.

    A flag is a byte: numpy takes more than twice as long to read bits.
    """

    def __init__(self, keys: Ids) -> None:
        self._mask = np.int64((1 << (FLAGS_PER_KEY * len(keys) - 1).bit_length()) - 1)
        self._flags = np.zeros(int(self._mask) + 1, np.bool_)
        self._flags[keys & self._mask] = True

    def possible(self, probe: Ids) -> Ids:
        """The places of the probes that may be keys."""
        return np.flatnonzero(self._flags.take(probe & self._mask))


class KeySearch:
    """Finds probes among sorted, distinct keys: by a binary search, or by what shortens it, which is made when there have been enough
    probes for it to pay. It also keeps the fan-out of an index on these keys, once that has been counted.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        """``most``: with more keys there are neither a directory nor flags."""
        self.fan_out: FanOut | None = None
        self.directory: KeyDirectory | None = None
        self.flags: KeyFlags | None = None
        self._most = most
        self._probes = self._searches = 0
        self._rare = False  # whether few of the last probes were keys
        self._uneven = self._alike = False  # keys for which a directory, or flags, are of no use

    def find(self, keys: Ids, probe: Ids) -> tuple[Ids, Ids]:
        """The places of the probes that are keys, in rising order, and the place of the key of each. ``keys`` are the same in each call."""
        if not len(keys):
            return _NOWHERE, _NOWHERE
        if len(probe) < FEW_PROBES:
            return _found(keys, probe)
        flags = self._flags_of(keys)
        if flags is None:
            hits, at = self._searched(keys, probe)
        else:
            some = flags.possible(probe)
            hits, at = self._searched(keys, probe.take(some))
            if 2 * max(len(hits), len(probe) // RARE) < len(some):
                self.flags, self._alike = None, True
            hits = some.take(hits)
        self._probes += len(probe)
        self._rare = RARE * len(hits) <= len(probe)
        return hits, at

    def sorts(self, keys: Ids, probes: int) -> bool:
        """Whether :meth:`find` would sort this number of unsorted probes, of which flags exclude none."""
        has_directory = self.directory is not None or self._directory_pays(keys, self._searches + probes)
        return probes >= SORTED_PROBES and not has_directory

    def _flags_of(self, keys: Ids) -> KeyFlags | None:
        """The flags for more probes; None if these are expected to be keys."""
        if self._alike or not self._rare:
            return None
        if self.flags is None and len(keys) <= min(self._most, MOST_FLAGGED, 2 * self._probes):
            self.flags = KeyFlags(np.asarray(keys))
        return self.flags

    def _directory_of(self, keys: Ids, probes: int) -> KeyDirectory | None:
        """The directory for some more probes; None if a binary search costs less."""
        self._searches += probes
        if self.directory is None and self._directory_pays(keys, self._searches):
            made = KeyDirectory(np.asarray(keys))
            self._uneven = made.longest > LONGEST
            self.directory = None if self._uneven else made
        return self.directory

    def _directory_pays(self, keys: Ids, searches: int) -> bool:
        enough = min(max(len(keys), LEAST_SEARCHED), MOST_SEARCHED)
        return searches >= enough and not self._uneven and len(keys) <= min(self._most, MOST_KEYS)

    def _searched(self, keys: Ids, probe: Ids) -> tuple[Ids, Ids]:
        if len(probe) < FEW_PROBES:
            return _found(keys, probe)
        ordered = is_sorted(probe)
        if not (ordered and _are_many(probe, keys)) and (directory := self._directory_of(keys, len(probe))) is not None:
            return directory.find(probe)
        if ordered:
            return _found_in_order(keys, probe)
        if len(probe) < SORTED_PROBES:
            return _found(keys, probe)
        order = np.argsort(probe)
        hits, at = _found_in_order(keys, probe.take(order))
        place_of = np.full(len(probe), -1)
        place_of[order.take(hits)] = at
        hits = np.flatnonzero(place_of >= 0)
        return hits, place_of.take(hits)


def _are_many(probe: Ids, keys: Ids) -> bool:
    return len(probe) >= FEW_KEYS * len(keys)


def _found(keys: Ids, probe: Ids) -> tuple[Ids, Ids]:
    """:meth:`KeySearch.find` by a binary search for each probe."""
    at = np.minimum(np.searchsorted(keys, probe), len(keys) - 1)
    hits = np.flatnonzero(keys.take(at) == probe)
    return hits, at.take(hits)


def _found_in_order(keys: Ids, probe: Ids) -> tuple[Ids, Ids]:
    """:meth:`KeySearch.find` of probes that are in order."""
    if not _are_many(probe, keys):
        return _found(keys, probe)
    first = np.searchsorted(probe, keys)
    counts = np.searchsorted(probe, keys, "right") - first
    at = np.repeat(np.arange(len(keys)), counts)
    return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(at)), at
