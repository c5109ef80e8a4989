"""The names of the queries that share a program, and the query of each answer (DESIGN §9)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cqels_opt.operators.rows import Ints
from cqels_opt.rdf.ids import integer_ids
from cqels_opt.state.task_files import here
from cqels_opt.state.worker_cache import Stamp, stamp_of
from cqels_opt.storage.columns import read_table, write_table
from cqels_opt.storage.shared_cache import SharedCache, cached

NAMES = "instances.arrow"


def write_names(path: Path, names: Mapping[int, str]) -> None:
    """Writes the names of queries by their numbers."""
    numbers = np.array(sorted(names), np.int64)
    named = pa.array([names[n] for n in numbers.tolist()], pa.string())
    write_table(path, pa.table({"id": pa.array(integer_ids(numbers), pa.int64()), "name": named}))


class Names:
    """The names of the queries of a program, mapped. Rows have the ids of their numbers."""

    def __init__(self, path: Path) -> None:
        table = read_table(path)
        ids = np.asarray(table.column("id").combine_chunks().to_numpy(zero_copy_only=False), np.int64)
        self._order = np.argsort(ids)
        self.ids = ids[self._order]
        self._names: Any = table.column("name").combine_chunks()

    def of(self, ids: Ints) -> Any:
        """The name of each row's query."""
        return self._names.take(pa.array(self._order[np.searchsorted(self.ids, ids)]))

    def some(self, number: int) -> list[str]:
        """The first names, in the order in which the queries were registered."""
        found: list[str] = self.of(self.ids[:number]).to_pylist()
        return found

    def live(self, ids: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether the query of each row is still registered."""
        return np.isin(ids, self.ids)


def names_of(path: str) -> Names:
    """The names of a program's queries."""
    path = here(path)
    return cached(_NAMES, (path, stamp_of(Path(path))), lambda: Names(Path(path)))


_NAMES: SharedCache[tuple[str, Stamp], Names] = SharedCache(64)
