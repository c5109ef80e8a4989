"""An index over the rows of a relation, for whole columns of probes.

A sorted array of distinct keys, with the start of each key's run of rows, takes the role of a B+-tree: a probe is one binary
search. A composite index has the arrays of an index on one of its columns and verifies the others, if the relation already has one that
is selective enough; otherwise it sorts by a 64-bit mix of all columns, verified as well. All of it are plain arrays that can be
memory-mapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.order import Ids, is_sorted, run_starts, stable_order
from cqels_opt.stats.frequencies import dot

#: A single column is good enough for a composite index while a row's key has on average at most this many rows to verify.
VERIFY_LIMIT: Final = 4.0

#: From this number of probes on they are sorted first: neighbours in the keys then share the pages and the cache lines of their searches.
SORTED_PROBES: Final = 1000

#: With this many sorted probes a key, the keys are searched in the probes instead.
FEW_KEYS: Final = 8

#: The parts of a directory of keys per key (or up to twice as many), and the most keys that have a directory.
PARTS_PER_KEY: Final = 4
MOST_KEYS: Final = 1 << 21

#: A directory is not used if some part has more keys.
LONGEST: Final = 16

#: The flags per key (or up to twice as many) that exclude probes, the most keys that have flags, and the fewest probes that are excluded by
#: them. They are used where at most one in ``RARE`` probes is a key.
FLAGS_PER_KEY: Final = 4
MOST_FLAGGED: Final = 1 << 22
FEW_PROBES: Final = 256
RARE: Final = 4

#: Probes that are mixed, or compared with flags, at a time.
BLOCK: Final = 1 << 14

#: Runs that are counted at a time.
_PIECE: Final = 1 << 20

_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class FanOut:
    """How many rows the keys of an index have. ``histogram[k]`` counts the keys with 2**k to 2**(k+1)-1 rows."""

    keys: int
    rows: int
    maximum: int
    squares: int
    histogram: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Rows a key, over the keys."""
        return self.rows / self.keys if self.keys else 0.0

    @property
    def weighted(self) -> float:
        """The expected rows per key for probes that are distributed like the relation's own keys."""
        return self.squares / self.rows if self.rows else 0.0


def fan_out(starts: Ids) -> FanOut:
    """The distribution of run lengths between ``starts`` (one more than there are keys)."""
    histogram = np.zeros(64, np.int64)
    maximum = squares = 0
    for begin in range(0, len(starts) - 1, _PIECE):
        lengths = np.diff(starts[begin : begin + _PIECE + 1])
        histogram += np.bincount(np.frexp(lengths.astype(np.float64))[1] - 1, minlength=64)
        squares += dot(lengths, lengths)
        maximum = max(maximum, int(lengths.max()))
    filled = int(np.flatnonzero(histogram)[-1]) + 1 if maximum else 0
    return FanOut(len(starts) - 1, int(starts[-1]), maximum, squares, tuple(histogram[:filled].tolist()))


def mix(columns: Sequence[Ids]) -> Ids:
    """One well-mixed 64-bit number a row, in the order of the columns."""
    first, second, third = _MIX
    mixed = np.zeros(len(columns[0]), np.uint64)
    for block in _blocks(len(mixed)):
        state = mixed[block]
        for column in columns:
            state ^= column[block].view(np.uint64)
            state *= first
            state += second
            state ^= state >> np.uint64(29)
            state *= third
            state ^= state >> np.uint64(32)
    return mixed.view(np.int64)


def _blocks(length: int) -> list[slice]:
    """Neighbouring parts of columns, whose intermediate results stay in the cache of a core."""
    return [slice(begin, begin + BLOCK) for begin in range(0, length, BLOCK)]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The matches of some probe rows as runs of an index: probe row ``probes[i]`` has ``counts[i]`` of them, from ``begins[i]`` on."""

    index: Index
    probes: Ids
    begins: Ids
    counts: Ids

    @property
    def total(self) -> int:
        """How many matches there are."""
        return int(self.counts.sum())

    def pairs(self, some: slice = slice(None)) -> tuple[Ids, Ids]:
        """The matches of some of the runs: (probe positions, relation rows)."""
        begins, counts = self.begins[some], self.counts[some]
        if len(counts) and counts.max() == 1:  # each run is one row
            positions, slots = self.probes[some], begins
        else:
            positions = np.repeat(self.probes[some], counts)
            slots = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(len(positions))
        return positions, slots if self.index.rows is None else self.index.rows.take(slots).astype(np.int64, copy=False)

    def pick(self, places: Ids) -> tuple[Ids, Ids]:
        """The matches at some places of :meth:`Index.lookup`'s answer: (probe positions, relation rows)."""
        ends = np.cumsum(self.counts)
        run = np.searchsorted(ends, places, "right")
        slots = self.begins[run] + places - (ends[run] - self.counts[run])
        rows = slots if self.index.rows is None else self.index.rows[slots].astype(np.int64, copy=False)
        return self.probes[run], rows


class KeyDirectory:
    """Finds keys without a binary search: the place of the first key of each of many equal parts of the range of keys.

    Ids and mixed keys are hashes, so nearly all parts have one key or none.
    """

    def __init__(self, keys: Ids) -> None:
        values, span = keys.view(np.uint64), int(keys[-1]) - int(keys[0])
        self._keys, self._least = keys, values[0]
        self._shift = np.uint64(max(0, span.bit_length() - (len(keys) * PARTS_PER_KEY).bit_length()))
        self._parts = (span >> int(self._shift)) + 1
        counts = np.bincount(((values - self._least) >> self._shift).view(np.int64), minlength=self._parts)
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
        found = [np.flatnonzero(self._flags.take(probe[block] & self._mask)) + block.start for block in _blocks(len(probe))]
        return found[0] if len(found) == 1 else np.concatenate(found)


class _Directory:
    """What shortens the search in the keys of an index, made when there have been enough probes for it to pay, and the fan-out of the
    index, counted when it is first read.
    """

    def __init__(self) -> None:
        self.fan_out: FanOut | None = None
        self._made: KeyDirectory | None = None
        self._flags: KeyFlags | None = None
        self._probes, self._uneven = 0, False
        self._asked = self._hits = 0

    def possible(self, keys: Ids, probe: Ids) -> Ids | None:
        """The places of the probes that may be keys; None if all of them are to be searched."""
        if len(probe) < FEW_PROBES:
            return None
        pays = len(keys) <= min(MOST_FLAGGED, 2 * self._asked) and RARE * self._hits <= self._asked
        if self._flags is None and pays:
            self._flags = KeyFlags(np.asarray(keys))
        return None if self._flags is None else self._flags.possible(probe)

    def saw(self, probes: int, hits: int) -> None:
        """Counts probes, and those of them that were keys."""
        self._asked += probes
        self._hits += hits

    def of(self, keys: Ids, probes: int) -> KeyDirectory | None:
        """The directory for some more probes; None if a binary search costs less."""
        self._probes += probes
        pays = probes >= SORTED_PROBES and len(keys) <= min(MOST_KEYS, self._probes)
        if self._made is None and pays and not self._uneven:
            made = KeyDirectory(np.asarray(keys))
            self._uneven = made.longest > LONGEST
            self._made = None if self._uneven else made
        return self._made


NO_INDEXES: Final[Mapping[str, Index]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Rows of a relation by the values of the variables ``on``.

    ``keys`` are the distinct sort keys; the rows of ``keys[i]`` are ``rows[starts[i]:starts[i+1]]``; ``rows`` is None if the
    relation itself is in that order. ``by`` is the position in ``on`` of the column that ``keys`` come from, None for the mix.
    """

    on: tuple[str, ...]
    columns: tuple[Ids, ...]
    by: int | None
    keys: Ids
    starts: Ids
    rows: NDArray[np.integer] | None
    directory: _Directory = field(default_factory=_Directory)

    @classmethod
    def build(cls, on: tuple[str, ...], columns: Sequence[Ids], by_variable: Mapping[str, Index] = NO_INDEXES) -> Index:
        """Sort the rows by ``columns``, the arrays of the variables ``on``.

        ``by_variable`` has indexes of these rows on one variable each. If the keys of one of them have few rows, an index on several
        variables shares its arrays; without one it sorts by the mix.
        """
        if not on or len(on) != len(set(on)) or len(on) != len(columns):
            raise ValueError(f"an index is on one or more different variables, not {on}")
        if len(on) == 1:
            return cls(on, tuple(columns), 0, *_sorted_runs(columns[0]))
        weighted = {place: by_variable[v].fan_out.weighted for place, v in enumerate(on) if v in by_variable}
        by = min(weighted, key=weighted.__getitem__, default=None)
        if by is not None and weighted[by] <= VERIFY_LIMIT:
            return replace(by_variable[on[by]], on=on, columns=tuple(columns), by=by)
        return cls(on, tuple(columns), None, *_sorted_runs(mix(columns)))

    def rename(self, on: tuple[str, ...]) -> Index:
        """The same index with other names for its variables."""
        return Index(on, self.columns, self.by, self.keys, self.starts, self.rows, self.directory)

    @property
    def fan_out(self) -> FanOut:
        """The distribution of rows per key (per sort key, if the index is composite)."""
        found = self.directory.fan_out
        if found is None:
            found = self.directory.fan_out = fan_out(self.starts)
        return found

    def lookup(self, *keys: Ids) -> tuple[Ids, Ids]:
        """For probe rows with these keys: (probe positions, relation rows), a pair a match, by ascending probe position."""
        positions, rows = Runs(self, *self._runs(keys)).pairs()
        for place, (column, key) in enumerate(zip(self.columns, keys)):
            if place != self.by:
                kept = np.flatnonzero(np.asarray(column).take(rows) == key.take(positions))
                positions, rows = positions.take(kept), rows.take(kept)
        return positions, rows

    def join_size(self, other: Index) -> int:
        """The rows that the relations of two indexes, each on one variable, join to on it."""
        few, many = (self, other) if len(self.keys) <= len(other.keys) else (other, self)
        return dot(np.diff(few.starts), many.fanout(np.asarray(few.keys)))

    def fanout(self, *keys: Ids) -> Ids:
        """How many relation rows each probe row matches."""
        if len(self.on) > 1:
            return np.bincount(self.lookup(*keys)[0], minlength=len(keys[0])).astype(np.int64, copy=False)
        probes, _, counts = self._runs(keys)
        result = np.zeros(len(keys[0]), np.int64)
        result[probes] = counts
        return result

    def runs(self, key: Ids) -> Runs:
        """The matches of each probe row by the sort key alone (of a single-variable index: its matches), without making them."""
        if len(self.on) != 1:
            raise ValueError(f"the index on {self.on} has runs that must be verified; use one on a single variable")
        return Runs(self, *self._runs((key,)))

    def contains(self, *keys: Ids) -> NDArray[np.bool_]:
        """Which probe rows match at all."""
        return self.fanout(*keys) > 0

    def _runs(self, keys: Sequence[Ids]) -> tuple[Ids, Ids, Ids]:
        """The probe rows whose sort key occurs, and the beginning and length of its run."""
        if len(keys) != len(self.on):
            raise ValueError(f"the index on {self.on} takes {len(self.on)} keys, not {len(keys)}")
        probe = keys[self.by] if self.by is not None else mix(keys)
        if not len(self.keys):
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        some = self.directory.possible(self.keys, probe)
        hits, at = self._searched(probe if some is None else probe.take(some))
        hits = hits if some is None else some.take(hits)
        self.directory.saw(len(probe), len(hits))
        begins = self.starts.take(at)
        return hits, begins, self.starts.take(at + 1) - begins

    def _searched(self, probe: Ids) -> tuple[Ids, Ids]:
        """The probe rows whose sort key occurs, and the position of the key."""
        if len(probe) < SORTED_PROBES or is_sorted(probe):
            return self._found(probe)
        if (directory := self.directory.of(self.keys, len(probe))) is not None:
            return directory.find(probe)
        order = np.argsort(probe)
        hits, at = self._found(probe.take(order))
        place_of = np.full(len(probe), -1)
        place_of[order.take(hits)] = at
        hits = np.flatnonzero(place_of >= 0)
        return hits, place_of.take(hits)

    def _found(self, probe: Ids) -> tuple[Ids, Ids]:
        """:meth:`_searched` of probes that are few, or in order."""
        if len(probe) < max(SORTED_PROBES, FEW_KEYS * len(self.keys)):
            at = np.minimum(np.searchsorted(self.keys, probe), len(self.keys) - 1)
            hits = np.flatnonzero(self.keys.take(at) == probe)
            return hits, at.take(hits)
        first = np.searchsorted(probe, self.keys)
        counts = np.searchsorted(probe, self.keys, "right") - first
        at = np.repeat(np.arange(len(self.keys)), counts)
        return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(at)), at


def _sorted_runs(column: Ids) -> tuple[Ids, Ids, NDArray[np.integer] | None]:
    """Distinct values in order, the starts of their runs, and the rows in that order (None: they are in order)."""
    rows: NDArray[np.integer] | None = None
    ordered = column
    if not is_sorted(column):
        order = stable_order(column)
        ordered = column[order]
        rows = order.astype(np.int32) if len(column) < 1 << 31 else order
    first = run_starts((ordered,))
    return ordered[first], np.append(first, len(column)), rows
