"""Caches of a worker between tasks: mapped stores and relations, pages of terms, and window state with its indexes.

No answer depends on a cache: one that does not fit the current step is filled again from the files that the step names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from cqels_opt.errors import CheckpointError, StoreError
from cqels_opt.lod.fan_out import FanOut
from cqels_opt.lod.object_store_cache import header_file
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.relation import HEADER as RELATION_HEADER
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.outer_joins import made_of_each
from cqels_opt.operators.term_table import Page, TermTable
from cqels_opt.operators.udf_cache import Calls, Results
from cqels_opt.plans import JoinKind
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.state.known_terms import KnownTerms
from cqels_opt.state.task_files import here
from cqels_opt.stats.frequencies import dot
from cqels_opt.storage import sealed_files
from cqels_opt.storage.shared_cache import SharedCache, cached

SMALL_PAGE = 1 << 14
"""Terms, at most, of a page that becomes one with others in memory, and of these others before."""

Stamp = tuple[int, int]
_STORES: SharedCache[tuple[str, Stamp], Store] = SharedCache(8)
_RELATIONS: SharedCache[tuple[str, Stamp, StaticPattern | None], Relation] = SharedCache(256)
_JOIN_SIZES: SharedCache[tuple[str, tuple[Stamp, ...], StaticPattern | str, StaticPattern | str, str, str], int] = SharedCache(
    4096
)
_FAN_OUTS: SharedCache[tuple[str, Stamp, StaticPattern | str, str], FanOut] = SharedCache(4096)
_TERM_IDS: SharedCache[tuple[str, Stamp, IdScheme], KnownTerms] = SharedCache(4)
_JSON: SharedCache[tuple[str, Stamp, IdScheme], dict[int, str]] = SharedCache(4)
_PAGES: SharedCache[tuple[str, Stamp], Page] = SharedCache(256)
_SMALL_PAGES: SharedCache[str, list[tuple[list[Page], Page]]] = SharedCache(8)
_RESULTS: SharedCache[tuple[str, str, str, int], Results] = SharedCache(2)


def stamp_of(path: Path | str) -> Stamp:
    """Distinguishes a file from another one that took its place."""
    return sealed_files.stamp(path)


def stamp_in_state(path: Path | str) -> Stamp:
    """:func:`stamp_of` a file of the state; if it is missing, the checkpoint is damaged."""
    try:
        return stamp_of(path)
    except OSError as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged ({error.strerror}); use another folder") from error


def store(folder: str) -> Store:
    """The static store in a folder or at a URI, mapped. A replaced store is opened again."""
    return cached(_STORES, (folder, _stamp_of_store(folder)), lambda: open_store(here(folder)))


def term_ids(store_folder: str, scheme: IdScheme) -> KnownTerms:
    """The ids of IRIs that tasks have read and that the store has."""
    return cached(_TERM_IDS, (store_folder, _stamp_of_store(store_folder), scheme), KnownTerms)


def relation(store_folder: str, at: StaticPattern | str) -> Relation:
    """A static relation: a pattern on the store, or the relation in a folder."""
    stamp = stamp_of_relation(store_folder, at)
    if isinstance(at, str):
        return cached(_RELATIONS, (at, stamp, None), lambda: _sub_result(Path(here(at))))
    return cached(_RELATIONS, (store_folder, stamp, at), lambda: store(store_folder).match(at))


def _sub_result(folder: Path) -> Relation:
    """A static relation that was computed for queries. If it is damaged, the store is not: it can be computed again."""
    try:
        return Relation.open(folder)
    except StoreError as error:
        raise CheckpointError(
            f"{str(error).split(' ')[0]} is damaged: remove {folder.parent}, it is made again by the next start"
        ) from error


def stamp_of_relation(store_folder: str, at: StaticPattern | str) -> Stamp:
    """Distinguishes the content of a static relation from that of another version."""
    return stamp_of(here(f"{at}/{RELATION_HEADER}")) if isinstance(at, str) else _stamp_of_store(store_folder)


def _stamp_of_store(folder: str) -> Stamp:
    return stamp_of(header_file(here(folder)))


def join_size(
    store_folder: str, left: StaticPattern | str, right: StaticPattern | str, variable: str, kind: JoinKind = "inner"
) -> int:
    """The rows of the join of two static relations on one variable; or those that a unit makes of all rows of the left one."""
    stamps = tuple(stamp_of_relation(store_folder, at) for at in (left, right))

    def count() -> int:
        one, other = (relation(store_folder, at).index((variable,)) for at in (left, right))
        if kind == "inner":
            return one.join_size(other)
        return dot(np.diff(one.starts), made_of_each(kind, other.fanout(np.asarray(one.keys))))

    return cached(_JOIN_SIZES, (store_folder, stamps, left, right, variable, kind), count)


def fan_out(store_folder: str, at: StaticPattern | str, variable: str) -> FanOut:
    """The distribution of rows per value of a variable of a static relation; counted once."""
    key = store_folder, stamp_of_relation(store_folder, at), at, variable
    return cached(_FAN_OUTS, key, lambda: relation(store_folder, at).fan_out(variable))


def page(path: Path | str) -> Page:
    """A page of terms."""
    return cached(_PAGES, (str(path), stamp_in_state(path)), lambda: Page.open(Path(path)))


def pages(paths: Sequence[Path | str]) -> list[Page]:
    """Pages of terms, small ones as few: each batch writes one per stream, and new terms are looked up in each page."""
    every = [page(path) for path in paths]
    small = {one: None for one in every if len(one) <= SMALL_PAGE}
    if len(small) <= 1:
        return every
    folder = str(Path(paths[0]).parent)
    groups: list[tuple[list[Page], Page]] = []
    for members, group in _SMALL_PAGES.get(folder, ()):
        if kept := [one for one in members if one in small]:
            groups.append((kept, group if len(kept) == len(members) else Page.together(kept)))
    grouped = {one for members, _ in groups for one in members}
    if new := [one for one in small if one not in grouped]:
        members, parts = list[Page](), list[Page]()
        if groups and len(groups[-1][1]) < SMALL_PAGE:
            members, group = groups.pop()
            parts = [group]
        groups.append(([*members, *new], Page.together([*parts, *new])))
    _SMALL_PAGES[folder] = groups
    return [*(one for one in every if one not in small), *(group for _, group in groups)]


def term_table(store_folder: str, scheme: IdScheme, step: EvaluationStep) -> TermTable:
    """A term table over a store and the pages of a step, with the results of extension functions in the step so far."""
    scheme = scheme.with_displaced(step.displaced)
    terms = step.derived("pages", lambda: cache(lambda: pages([step.path / f.path for f in step.select("terms")])))
    results = cached(_RESULTS, (step.folder, step.run, step.program, step.batch), dict) if step.remember else None
    opened, stamp = step.derived(f"store {store_folder}", lambda: (store(store_folder), _stamp_of_store(store_folder)))
    json = cached(_JSON, (store_folder, stamp, scheme), dict)
    return TermTable(scheme, opened.decode, terms, Calls(results), json=json, columns=opened.texts)
