"""The static part of a query as a table of a relational database, and a cache of lookups in it.

The report's System X "directs [the static part] to the triple store to load the binding results into a relational database", with
indexes on the join attributes, and has "a least recently used (LRU) cache to store intermediate results from relational tables"
(§6). Here the store is pyoxigraph and the database DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from cqels_opt.operators.rows import Ints, Rows, group_ids

XSD = "http://www.w3.org/2001/XMLSchema#"
_BARE = (
    (re.compile(r"[+-]?\d+"), "integer"),
    (re.compile(r"[+-]?\d*\.\d+"), "decimal"),
    (re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+"), "double"),
    (re.compile(r"true|false"), "boolean"),
)


class Terms:
    """Numbers terms from 1; 0 means unbound."""

    def __init__(self) -> None:
        self.texts: list[str | None] = [None]
        self._numbers: dict[str, int] = {}

    def encode(self, column: Any) -> Ints:
        """The numbers of an Arrow column of texts."""
        whole = column.combine_chunks()
        coded = whole if isinstance(whole, pa.DictionaryArray) else whole.dictionary_encode()
        numbers = np.array([self.number(str(text)) for text in coded.dictionary.to_pylist()] or [0], np.int64)
        found: Ints = numbers[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, found)

    def number(self, text: str) -> int:
        """The number of a term."""
        if (number := self._numbers.get(text)) is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


def bindings(store: Any, query: str, file: Path, variables: Sequence[str]) -> pa.Table:
    """The triple store's answers as columns of texts; transferred through a file, as between two systems."""
    import pyoxigraph as ox

    store.query(query).serialize(str(file), ox.QueryResultsFormat.TSV)
    read = csv.ReadOptions(column_names=list(variables), skip_rows=1)
    types = dict.fromkeys(variables, pa.string())
    parse, convert = csv.ParseOptions(delimiter="\t", quote_char=False), csv.ConvertOptions(column_types=types)
    table = csv.read_csv(file, read, parse, convert)
    file.unlink()
    return pa.table({name: _written_out(table[name]) for name in variables})


def _written_out(column: Any) -> Any:
    """The N-Triples texts of the terms of a TSV, which abbreviates numbers and booleans."""
    coded = column.combine_chunks().dictionary_encode()
    texts = [_literal(text) for text in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string())).cast(pa.string())


def _literal(text: str) -> str | None:
    if not text or text[0] in '<"_':
        return text or None
    return next((f'"{text}"^^<{XSD}{kind}>' for pattern, kind in _BARE if pattern.fullmatch(text)), text)


class Table:
    """A table with an index on its lookup columns."""

    def __init__(self, connection: Any, name: str, columns: dict[str, Ints], on: Sequence[str]) -> None:
        self.connection, self.name, self.on = connection, name, tuple(on)
        self.others = tuple(v for v in columns if v not in on)
        rows = pa.table({v: pa.array(column) for v, column in columns.items()})
        connection.register("loaded", rows)
        every = ", ".join(f'"{v}"' for v in columns)
        connection.execute(f"CREATE TABLE {name} AS SELECT {every}, count(*) AS n FROM loaded GROUP BY ALL")
        keys = ", ".join(f'"{v}"' for v in self.on)
        connection.execute(f"CREATE INDEX {name}_index ON {name} ({keys})")
        connection.unregister("loaded")

    def poll(self, keys: Sequence[Ints]) -> tuple[Ints, dict[str, Ints], Ints]:
        """For each key: the index of the key, the other columns and the multiplicity of each row, ordered by key index."""
        wanted = pa.table({"place": pa.array(np.arange(len(keys[0]))), **{v: pa.array(key) for v, key in zip(self.on, keys)}})
        self.connection.register("wanted", wanted)
        same = " AND ".join(f'r."{v}" = a."{v}"' for v in self.on)
        columns = "".join(f', r."{v}"' for v in self.others)
        query = f"SELECT a.place, r.n{columns} FROM wanted a JOIN {self.name} r ON {same} ORDER BY a.place"
        found = self.connection.execute(query).fetchnumpy()
        return (
            found["place"].astype(np.int64),
            {v: np.asarray(found[v], np.int64) for v in self.others},
            found["n"].astype(np.int64),
        )


class Cached:
    """A table with a vectorised LRU cache of ``capacity`` keys with their rows.

    The least recently used keys are evicted; all keys of one lookup have the same age.
    """

    def __init__(self, table: Table, capacity: int) -> None:
        self.table, self.capacity = table, capacity
        self.hits = self.misses = self._now = 0
        none = np.empty(0, np.int64)
        self._keys: list[Ints] = [none for _ in table.on]
        self._used, self._first, self._count = none, none, none
        self._rows = dict.fromkeys(table.others, none)
        self._n = none

    def join(self, left: Rows) -> Rows:
        """The rows joined with those of the table on its keys."""
        group, first = group_ids([left.columns[v] for v in self.table.on], len(left))
        wanted = [left.columns[v][first] for v in self.table.on]
        at = self._places(wanted)
        count, begin = self._count[at][group], self._first[at][group]
        row = np.repeat(np.arange(len(left)), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        source = np.repeat(begin, count) + within
        joined = left.take(row)
        columns = {**joined.columns, **{v: column[source] for v, column in self._rows.items()}}
        done = Rows(columns, joined.start, joined.end, joined.n * self._n[source])
        self._shrink()
        return done

    def _places(self, wanted: Sequence[Ints]) -> Ints:
        """The cache entries of distinct keys; missing ones are looked up in the table and cached."""
        self._now += 1
        known = len(self._used)
        group, _ = group_ids([np.concatenate(pair) for pair in zip(self._keys, wanted)], known + len(wanted[0]))
        entry = np.full(int(group.max(initial=-1)) + 1, -1)
        entry[group[:known]] = np.arange(known)
        at = entry[group[known:]]
        missing = np.flatnonzero(at < 0)
        self.hits, self.misses = self.hits + len(at) - len(missing), self.misses + len(missing)
        if len(missing):
            at[missing] = np.arange(known, known + len(missing))
            self._add([keys[missing] for keys in wanted])
        self._used[at] = self._now
        return at

    def _add(self, keys: Sequence[Ints]) -> None:
        place, columns, n = self.table.poll(keys)
        count = np.bincount(place, minlength=len(keys[0])).astype(np.int64)
        self._first = np.concatenate([self._first, len(self._n) + np.cumsum(count) - count])
        self._count = np.concatenate([self._count, count])
        self._used = np.concatenate([self._used, np.zeros(len(keys[0]), np.int64)])
        self._keys = [np.concatenate(pair) for pair in zip(self._keys, keys)]
        self._rows = {v: np.concatenate([column, columns[v]]) for v, column in self._rows.items()}
        self._n = np.concatenate([self._n, n])

    def _shrink(self) -> None:
        if len(self._used) <= self.capacity:
            return
        kept = np.sort(np.argpartition(-self._used, self.capacity)[: self.capacity])
        count = self._count[kept]
        rows = np.repeat(self._first[kept] - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        self._keys = [column[kept] for column in self._keys]
        self._used, self._count, self._first = self._used[kept], count, np.cumsum(count) - count
        self._rows = {v: column[rows] for v, column in self._rows.items()}
        self._n = self._n[rows]


def numbers_of(terms: Terms, ids: Iterable[int]) -> NDArray[np.float64]:
    """The values of numeric literals; NaN for other terms."""
    found = []
    for number in ids:
        text = terms.texts[number] or ""
        try:
            found.append(float(text[1 : text.rindex('"')]) if text.startswith('"') and "^^" in text else float("nan"))
        except ValueError:
            found.append(float("nan"))
    return np.array(found, np.float64)
