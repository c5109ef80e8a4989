"""The ids of a query's constants, and of the terms that its static relations compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from cqels_opt.lod.store import Store
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.term_table import TermTable, write_page
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.state import worker_cache


@dataclass(frozen=True, slots=True)
class KnownIds:
    """The ids that a run has given to terms beyond those of its store: no constant of another query may have one of them.

    ``pages`` are files of the terms in its windows.
    """

    displaced: tuple[tuple[str, int], ...] = ()
    constants: Mapping[int, str] = field(default_factory=dict)
    pages: tuple[str, ...] = ()


NOTHING_KNOWN: Final = KnownIds()


class QueryTerms(TermTable):
    """The terms of a query while it is compiled. Its ids are not in use yet, so a term whose id collides gets a second id at once."""

    def __init__(self, store: Store, known: KnownIds) -> None:
        pages = partial(worker_cache.pages, known.pages)
        super().__init__(store.scheme.with_displaced(known.displaced), store.decode, pages, constants=known.constants)

    def ids(self, texts: Sequence[str | None]) -> Ints:
        """The id of each term (0 for None)."""
        while True:
            try:
                return super().ids(texts)
            except CollisionError as error:
                self.scheme = self.scheme.displacing(error.losers)

    def save(self, page: Path, store: Store) -> None:
        """Writes the terms that the store does not have."""
        codes = np.array(list(self.made), np.int64)
        codes = codes[~store.contains(codes)]
        if len(codes):
            write_page(page, codes, [self.made[code] for code in codes.tolist()])
