"""What a worker keeps between tasks: mapped stores and relations, pages of terms, and the windows' contents with their indexes.

Nothing here decides an answer: a cache that does not fit the step at hand is filled again from the files that the step names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from cqels_opt.errors import CheckpointError, StoreError
from cqels_opt.lod.object_store_cache import header_file
from cqels_opt.lod.relation import HEADER as RELATION_HEADER
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.operators.evaluation_step import Step
from cqels_opt.operators.outer_joins import made_of_each
from cqels_opt.operators.term_table import Page, TermTable
from cqels_opt.operators.udf_cache import Calls, Results
from cqels_opt.plans import JoinKind
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.stats.frequencies import dot

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values used last, up to a number of them."""

    def __init__(self, limit: int) -> None:
        self.limit, self.values = limit, OrderedDict[K, V]()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made where absent."""
        if key not in self.values:
            self.values[key] = make()
            if len(self.values) > self.limit:
                self.values.popitem(last=False)
        self.values.move_to_end(key)
        return self.values[key]

    def forget(self, key: K) -> None:
        """The value of a key is made anew when it is asked for again."""
        self.values.pop(key, None)


Stamp = tuple[int, int]
_STORES: Recent[tuple[str, Stamp], Store] = Recent(8)
_RELATIONS: Recent[tuple[str, Stamp, StaticPattern | None], Relation] = Recent(256)
_JOIN_SIZES: Recent[tuple[str, tuple[Stamp, ...], StaticPattern | str, StaticPattern | str, str, str], int] = Recent(4096)
_PAGES: Recent[tuple[str, Stamp], Page] = Recent(256)
_RESULTS: Recent[tuple[str, str, int], Results] = Recent(2)


def stamp_of(path: Path) -> Stamp:
    """What tells a file from another one that took its place."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def stamp_in_state(path: Path) -> Stamp:
    """:func:`stamp_of` a file of the state: where it is gone, the checkpoint is damaged."""
    try:
        return stamp_of(path)
    except OSError as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged ({error.strerror}); use another folder") from error


def store(folder: str) -> Store:
    """The static store in a folder or at a URI, mapped. One that was replaced is opened anew."""
    return _STORES.get((folder, stamp_of(header_file(folder))), lambda: Store.open(folder))


def relation(store_folder: str, at: StaticPattern | str) -> Relation:
    """A static relation: a pattern on the store, or the relation in a folder."""
    stamp = _stamp_of_relation(store_folder, at)
    if isinstance(at, str):
        return _RELATIONS.get((at, stamp, None), lambda: _sub_result(Path(at)))
    return _RELATIONS.get((store_folder, stamp, at), lambda: store(store_folder).match(at))


def _sub_result(folder: Path) -> Relation:
    """A static relation that was made for queries. A damaged one is no damage of the store: it can be made again."""
    try:
        return Relation.open(folder)
    except StoreError as error:
        raise CheckpointError(
            f"{str(error).split(' ')[0]} is damaged: remove {folder.parent}, it is made again by the next start"
        ) from error


def _stamp_of_relation(store_folder: str, at: StaticPattern | str) -> Stamp:
    return stamp_of(Path(at) / RELATION_HEADER if isinstance(at, str) else header_file(store_folder))


def join_size(
    store_folder: str, left: StaticPattern | str, right: StaticPattern | str, variable: str, kind: JoinKind = "inner"
) -> int:
    """The rows that two static relations join to on one variable; or what a unit makes of all rows of the left one."""
    stamps = tuple(_stamp_of_relation(store_folder, at) for at in (left, right))

    def count() -> int:
        one, other = (relation(store_folder, at).index((variable,)) for at in (left, right))
        if kind == "inner":
            return one.join_size(other)
        return dot(np.diff(one.starts), made_of_each(kind, other.fanout(np.asarray(one.keys))))

    return _JOIN_SIZES.get((store_folder, stamps, left, right, variable, kind), count)


def page(path: Path) -> Page:
    """A page of terms."""
    return _PAGES.get((str(path), stamp_in_state(path)), lambda: Page(path))


def term_table(store_folder: str, scheme: IdScheme, step: Step) -> TermTable:
    """A term table over a store and the pages of a step, with what extension functions gave in the step so far."""
    scheme = scheme.with_displaced(step.displaced)
    pages = [step.path / f.path for f in step.select("terms")]
    results = _RESULTS.get((step.folder, step.run, step.batch), dict) if step.remember else None
    return TermTable(scheme, store(store_folder).decode, [lambda p=p: page(p) for p in pages], Calls(results))  # type: ignore[misc]
