"""Translates between ids and terms in a step: inline ids, the store's dictionary, the pages of slots, and terms that expressions make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.errors import RunError
from cqels_opt.operators.udf_cache import Calls
from cqels_opt.rdf import ids as term_ids
from cqels_opt.storage.columns import read_table, write_table

Ints = NDArray[np.int64]

PREFIXES: Final = 64
"""Prefixes of hashes per id of a page, a bit each: the binary search is avoided for all but 1/64 of the ids that are absent."""

_NO_TERMS: Final = pa.array([], pa.string())
_NOWHERE: Final = np.empty(0, np.int64)
_BIT: Final = np.left_shift(1, np.arange(8)).astype(np.uint8)


def write_page(path: Path, ids: Ints, texts: Sequence[str] | pa.StringArray) -> None:
    """Writes a page of terms, in order of their ids."""
    order: Any = pa.array(np.argsort(ids))
    terms = (texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.string())).take(order)
    write_table(path, pa.table({"id": pa.array(ids, pa.int64()).take(order), "term": terms}))


class Page:
    """A page of terms, in order of their ids."""

    def __init__(self, ids: Ints, terms: pa.StringArray, rows: Ints | None = None) -> None:
        """``rows`` has the place of the term of each id, where the terms are in another order than the ids."""
        self.ids, self._rows = ids, rows
        self.terms: Any = terms

    @classmethod
    def open(cls, path: Path) -> Page:
        """A page that has been written, mapped into memory."""
        table = read_table(path)
        ids = np.asarray(table.column("id").combine_chunks().to_numpy(zero_copy_only=False), dtype=np.int64)
        terms: Any = table.column("term").combine_chunks()
        return cls(ids, terms)

    @classmethod
    def together(cls, pages: Sequence[Page]) -> Page:
        """Several pages as one. A term of two of them has two places."""
        begins = np.cumsum([0, *(len(page.terms) for page in pages)]).tolist()
        rows = [begin + (np.arange(len(page.ids)) if page._rows is None else page._rows) for begin, page in zip(begins, pages)]
        ids, terms = np.concatenate([page.ids for page in pages]), pa.concat_arrays([page.terms for page in pages])
        order = np.argsort(ids, kind="stable")  # which merges runs that are in order
        return cls(ids[order], terms, np.concatenate(rows)[order])

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _prefixes(self) -> tuple[int, NDArray[np.uint8]]:
        """Which prefixes of hashes the page has, :data:`PREFIXES` or more per id, as a bit set; and the bits of an id behind a prefix."""
        bits = min(term_ids.HASH_BITS, max(8, len(self.ids) * PREFIXES - 1).bit_length())
        behind = term_ids.HASH_BITS - bits
        prefix = np.sort((self.ids >> behind) & ((1 << bits) - 1))
        byte = prefix >> 3
        first = np.flatnonzero(np.diff(byte, prepend=-1))
        has = np.zeros(1 << bits - 3, np.uint8)
        has[byte[first]] = np.bitwise_or.reduceat(_BIT[prefix & 7], first)
        return behind, has

    def _places(self, wanted: Ints) -> tuple[Ints, Ints]:
        """The ids that are on the page, by their places among ``wanted``, and their rows.

        Most ids are on no page or on another one: a look-up of the prefix excludes all but a few of them from the binary search. Pages
        that have become one are small and change with each batch: their prefixes are not worth a set.
        """
        if not len(self.ids):
            return _NOWHERE, _NOWHERE
        asked = self._may_be_here(wanted) if self._rows is None else None
        some = wanted if asked is None else wanted[asked]
        row = np.minimum(np.searchsorted(self.ids, some), len(self.ids) - 1)
        here = np.flatnonzero(self.ids[row] == some)
        row = row[here]
        return here if asked is None else asked[here], row if self._rows is None else self._rows[row]

    def _may_be_here(self, wanted: Ints) -> Ints:
        """The places of the ids whose prefixes the page has."""
        behind, has = self._prefixes
        prefix = (wanted >> behind) & (8 * len(has) - 1)
        return np.flatnonzero(has[prefix >> 3] & _BIT[prefix & 7])

    def find(self, wanted: Ints) -> tuple[NDArray[np.bool_], list[str]]:
        """Which of the ids are on the page, and their terms."""
        found = np.zeros(len(wanted), bool)
        asked, texts = self.among(wanted)
        found[asked] = True
        terms: Any = texts.to_pylist()
        return found, terms

    def among(self, wanted: Ints) -> tuple[Ints, pa.StringArray]:
        """The ids that are on the page, by their places among ``wanted``, and their terms."""
        asked, row = self._places(wanted)
        return asked, self.terms.take(row) if len(row) else _NO_TERMS

    def others(self, ids: Ints, texts: pa.StringArray) -> NDArray[np.bool_]:
        """Which of the ids belong here to another text than the given one."""
        other = np.zeros(len(ids), bool)
        asked, row = self._places(ids)
        if len(asked):
            other[asked] = pc.not_equal(self.terms.take(row), texts.take(asked)).to_numpy(zero_copy_only=False)
        return other


def check_pages(pages: Sequence[Page]) -> None:
    """CollisionError where an id belongs to one term on one page and to another term on another page."""
    if len(pages) > 1:
        term_ids.check_collisions(np.concatenate([page.ids for page in pages]), pa.concat_arrays([page.terms for page in pages]))


@lru_cache(4096)
def _inline_id(text: str) -> int:
    """The id of a term if it contains the value, so that it needs no table; else 0."""
    code = term_ids.encode([text], term_ids.PUBLIC)
    return int(code[0]) if term_ids.is_inline(code)[0] else 0


class TermTable:
    """Decodes ids to canonical N-Triples text and back. Terms computed by expressions are kept here until the step ends.

    The id of a term that is made belongs to no other term: its text is compared with those of the store, the pages and the terms made
    before. ``calls`` are the calls of extension functions, by the ids of their arguments; ``constants`` are terms of other queries.
    ``json`` has terms of the store as JSON texts, by id: the caller keeps them for later tables. ``columns`` gives the places of those ids
    that the store has, and their terms as a column.
    """

    def __init__(
        self,
        scheme: term_ids.IdScheme,
        decode: Callable[[Ints], list[str | None]] | None,
        pages: Callable[[], Sequence[Page]] = list,
        calls: Calls | None = None,
        constants: Mapping[int, str] | None = None,
        json: dict[int, str] | None = None,
        columns: Callable[[Ints], tuple[Ints, pa.StringArray]] | None = None,
    ) -> None:
        self.scheme = scheme
        self._columns = columns
        self.calls = calls or Calls()
        self._store = decode
        self._pages = pages
        self._texts: dict[int, str] = dict(constants or {})
        self._constants: dict[str, int] = {}
        self.made: dict[int, str] = {}
        self.json = {} if json is None else json
        self._found: list[Ints] = []
        self._of_store: set[int] = set()

    @property
    def of_store(self) -> set[int]:
        """The ids whose terms were found in the store."""
        for ids in self._found:
            self._of_store.update(ids.tolist())
        self._found.clear()
        return self._of_store

    def texts(self, ids: Ints) -> list[str | None]:
        """The term of each id; None for unbound. RunError for an id without a term."""
        distinct, inverse = np.unique(ids, return_inverse=True)
        known = self._texts
        missing = np.array([i for i in distinct.tolist() if i and i not in known], np.int64)
        if len(missing) and len(left := self._fetch(missing)):
            raise RunError(f"the term of id {int(left[0]):#x} is on no page of terms: the state folder is damaged")
        texts = [known[i] if i else None for i in distinct.tolist()]
        return [texts[i] for i in inverse.tolist()]

    def column(self, distinct: Ints) -> pa.StringArray:
        """The terms of distinct ids, the empty text for unbound. Those of the store and of pages do not become texts of Python."""
        left = np.flatnonzero(~term_ids.is_inline(distinct) & (distinct != 0))
        places, parts = [np.empty(0, np.int64)], list[Any]()

        def add(found: Ints, texts: Any) -> None:
            nonlocal left
            places.append(left[found])
            parts.append(texts)
            left = np.delete(left, found)

        if self._columns is not None:
            found, texts = self._columns(distinct[left])
            self._found.append(distinct[left[found]])
            add(found, texts)
        for page in reversed(self._pages() if len(left) else ()):
            if not len(left):
                break
            found, texts = page.among(distinct[left])
            if len(found):
                add(found, texts)
        rest = np.ones(len(distinct), bool)
        rest[np.concatenate(places)] = False
        places.append(np.flatnonzero(rest))
        parts.append(pa.array([text or "" for text in self.texts(distinct[rest])], pa.string()) if rest.any() else _NO_TERMS)
        order = np.empty(len(distinct), np.int64)
        order[np.concatenate(places)] = np.arange(len(distinct))
        ordered: Any = pa.concat_arrays(parts).take(order)
        return cast("pa.StringArray", ordered)

    def _fetch(self, missing: Ints) -> Ints:
        """Looks up the texts of ids; returns the ids without one."""
        inline = term_ids.inline_texts(missing)
        if self._store is not None:
            hashed = [i for i, text in enumerate(inline) if text is None]
            for i, text in zip(hashed, self._store(missing[hashed])):
                inline[i] = text
            self._of_store.update(i for i, text in zip(missing.tolist(), inline) if text is not None)
        self._texts.update({i: text for i, text in zip(missing.tolist(), inline) if text is not None})
        left = np.array([i for i, text in zip(missing.tolist(), inline) if text is None], np.int64)
        for page in reversed(self._pages() if len(left) else ()):
            if not len(left):
                break
            found, terms = page.find(left)
            self._texts.update(zip(left[found].tolist(), terms))
            left = left[~found]
        return left

    def ids(self, texts: Sequence[str | None]) -> Ints:
        """The id of each term (0 for None), remembering terms that were made. CollisionError where another term has the id."""
        distinct = sorted({t for t in texts if t is not None})
        if not distinct:
            return np.zeros(len(texts), np.int64)
        codes = term_ids.encode(distinct, self.scheme)
        by_text = dict(zip(distinct, codes.tolist()))
        self._compare(codes[~term_ids.is_inline(codes)])
        made: dict[int, str] = {}
        for text, code in by_text.items():
            made.setdefault(code, text)
        if losers := [text for text, code in by_text.items() if self._texts.get(code, made[code]) != text]:
            raise term_ids.CollisionError(losers)
        self._texts.update(made)
        self.made.update(made)
        return np.array([by_text[t] if t is not None else 0 for t in texts], np.int64)

    def id(self, text: str) -> int:
        """The id of a constant, cached: computing it takes longer than comparing a thousand rows with it."""
        found = self._constants.get(text)
        if found is None:
            found = _inline_id(text) or int(self.ids([text])[0])
            self._constants[text] = found
        return found

    def _compare(self, codes: Ints) -> None:
        """Looks up the terms of the store and the pages for ids that are about to be given to terms."""
        unseen = np.array([code for code in codes.tolist() if code not in self._texts], np.int64)
        if len(unseen):
            self._fetch(unseen)
