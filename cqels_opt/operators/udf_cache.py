"""A cache for calls of extension functions in one step.

Within a step a call is repeated with the same arguments: in other delta sources, in other chunks of rows, in a filter and in a BIND. Its
results are kept until the step ends (Keskisärkkä et al. 2021, §4.1), by the names and ids of its arguments. Look-ups take time as well:
where they take more than the calls that they save, the cache is not used for this call for a while, and then tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cqels_opt.operators.rows import Ints
from cqels_opt.query.algebra import Call
from cqels_opt.query.columns import Column, concatenated
from cqels_opt.storage.shared_cache import SharedCache, cached

ENTRIES = 1 << 20  # kept results of a call
TRIED = 16  # chunks of rows that are looked up before the cache is assessed: the first chunks of a step find nothing
RESTS = 64  # chunks of rows for which the cache is not used after it did not pay off


@dataclass(slots=True)
class CallStatistics:
    """Counts of a call: rows, distinct arguments, how many of these the cache had, and the seconds of the others."""

    rows: int = 0
    distinct: int = 0
    hits: int = 0
    looked_up: int = 0
    seconds: float = 0.0

    def add(self, other: CallStatistics) -> None:
        """Adds the counts of another task."""
        self.rows += other.rows
        self.distinct += other.distinct
        self.hits += other.hits
        self.looked_up += other.looked_up
        self.seconds += other.seconds


@dataclass(slots=True)
class CacheAdmission:
    """Whether the cache pays off for a call in this process: the time of its look-ups, and the calls that they saved."""

    pieces: int = 0
    hits: int = 0
    overhead: float = 0.0
    made: int = 0
    seconds: float = 0.0
    resting: int = 0

    def begins(self) -> bool:
        """Whether the next chunk of rows is looked up."""
        if self.resting > 0:  # threads that share it may count below 0
            self.resting -= 1
            return False
        return True

    def judge(self) -> None:
        """Stops look-ups that do not pay off, and resets the times, so that old ones do not decide permanently."""
        self.pieces += 1
        if self.pieces < TRIED or not self.made:
            return
        pays = self.hits * self.seconds / self.made >= self.overhead
        self.pieces, self.hits, self.overhead, self.made, self.seconds = 0, 0, 0.0, 0, 0.0
        self.resting = 0 if pays else RESTS


_ADMISSIONS: SharedCache[Call, CacheAdmission] = SharedCache(1024)


@dataclass(slots=True)
class CachedCalls:
    """The results of one call over arguments of the same names, by the ids of its arguments."""

    places: dict[Any, int] = field(default_factory=dict)
    parts: list[Column] = field(default_factory=list)

    def add(self, keys: Sequence[Any], made: Column) -> None:
        """Adds results, in the order of their keys."""
        begin = len(self.places)
        if begin + len(keys) <= ENTRIES:
            self.places.update(zip(keys, range(begin, begin + len(keys))))
            self.parts.append(made)

    def at(self, places: Ints) -> Column:
        """The results at some places."""
        if len(self.parts) > 1:
            self.parts = [concatenated(self.parts)]
        return self.parts[0].take(places)


Results = dict[tuple[Call, tuple[str, ...]], CachedCalls]
"""The results of one step, by call and the names of its arguments: a variable that rows do not have, as in a branch of UNION, is none."""


class Calls:
    """The calls of a task. ``results`` are those of its step; None: nothing is kept.

    ``combinations`` counts the distinct arguments of all expressions that are evaluated row by row, extension functions or not.
    """

    def __init__(self, results: Results | None = None) -> None:
        self.results = results
        self.accounts: dict[Call, CallStatistics] = {}
        self.combinations = 0

    def column(self, call: Call, rows: int, keys: Mapping[str, Ints], make: Callable[[Ints], Column]) -> Column:
        """The results for distinct arguments whose ids are ``keys``, by name; ``make`` computes those at some places."""
        columns = [*keys.values()]
        length = len(columns[0]) if columns else 1
        account = self.accounts.setdefault(call, CallStatistics())
        account.rows += rows
        account.distinct += length
        self.combinations += length
        admission = cached(_ADMISSIONS, call, CacheAdmission)
        if self.results is None or not keys or not admission.begins():
            return self._made(account, np.arange(length), make)
        began, before = time.perf_counter(), account.seconds
        known = self.results.setdefault((call, (*keys,)), CachedCalls())
        wanted: list[Any] = columns[0].tolist() if len(columns) == 1 else list(zip(*(key.tolist() for key in columns)))
        get = known.places.get
        places = np.array([get(key, -1) for key in wanted], np.int64)
        missing = np.flatnonzero(places < 0)
        if not len(missing):
            found = known.at(places)
        else:
            made = self._made(account, missing, make)
            fresh = wanted if len(missing) == length else [wanted[i] for i in missing.tolist()]
            if len(missing) == length:
                found = made
                known.add(fresh, made)
            else:
                here = np.flatnonzero(places >= 0)
                order = np.argsort(np.concatenate([here, missing]))
                found = concatenated([known.at(places[here]), made]).take(order)
                known.add(fresh, made)
        hits, made_in = length - len(missing), account.seconds - before
        account.looked_up += length
        account.hits += hits
        admission.hits += hits
        admission.made += len(missing)
        admission.seconds += made_in
        admission.overhead += time.perf_counter() - began - made_in
        admission.judge()
        return found

    def _made(self, account: CallStatistics, places: Ints, make: Callable[[Ints], Column]) -> Column:
        began = time.perf_counter()
        found = make(places)
        account.seconds += time.perf_counter() - began
        return found
