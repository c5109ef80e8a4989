"""Join orders compared with DuckDB's: the true numbers of rows of both orders over the same random relations.

C_out of an order is the sum of the rows of all its joins (Leis et al. 2015, *How good are query optimizers, really?*). Both
optimizers use their usual statistics: ours exact sizes of relations and of binary joins, DuckDB its own. The relations are
skewed, and columns of one may be correlated, so that both estimate joins of three and more relations.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.errors import InputError
from cqels_opt.plans import JoinOperator, KnownStatistics, Optimizer, QueryGraph, RelationNode
from cqels_opt.plans.cost import JoinShape, Rows
from cqels_opt.plans.dpccp import join_pairs
from cqels_opt.plans.plan import pairs
from cqels_opt.plans.relation_set import RelationSet, members, size

try:
    import duckdb
except ImportError as error:
    raise InputError("join-orders needs DuckDB: pip install 'cqels-opt[bench]'") from error

Tables = list[dict[str, NDArray[np.int64]]]
"""The columns of each relation, by variable."""


@dataclass(frozen=True, slots=True)
class RowsCost:
    """C_out: the cost of a join is its number of output rows."""

    name: str = "rows"
    unit: str = "rows"
    static_is_free: bool = False

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """One operator per kind of join, because C_out does not depend on it."""
        return (JoinOperator.HASH,) if shape.connected else (JoinOperator.LOOP,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Zero."""
        return np.zeros_like(rows)

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """The output rows."""
        return produced


@dataclass(frozen=True, slots=True)
class Compared:
    """True C_out of three orders of the same relations: the optimum without cross products, ours, DuckDB's."""

    relations: int
    optimum: float
    ours: float
    duckdb: float


def random_tables(rng: np.random.Generator, most: int) -> Tables:
    """Three to ``most`` connected relations. Most values occur about four times in a column, a few much more often."""
    count = int(rng.integers(3, most + 1))
    variables: list[list[str]] = [["x0"]]
    fresh = 1
    for i in range(1, count):
        shared = variables[int(rng.integers(i))]
        chosen = {shared[int(rng.integers(len(shared)))]}
        if rng.random() < 0.3:  # a cycle
            other = variables[int(rng.integers(i))]
            chosen.add(other[int(rng.integers(len(other)))])
        for _ in range(int(rng.integers(0, 3))):
            chosen.add(f"x{fresh}")
            fresh += 1
        variables.append(sorted(chosen))
    domain = {f"x{i}": int(10 ** rng.uniform(1.5, 3)) for i in range(fresh)}
    return [_columns(rng, names, domain) for names in variables]


def _columns(rng: np.random.Generator, names: list[str], domain: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    rows = max(5, int(min(domain[name] for name in names) * 10 ** rng.uniform(-1, 0.6)))
    columns: dict[str, NDArray[np.int64]] = {}
    for name in names:
        if columns and rng.random() < 0.4:  # depends on the previous column
            before = next(reversed(columns.values()))
            columns[name] = (before * 7 + rng.integers(0, 2, rows)) % domain[name]
        else:
            columns[name] = np.minimum(rng.zipf(rng.uniform(1.8, 4), rows) * rng.integers(1, 97, rows), 10**6) % domain[name]
    return columns


def statistics(tables: Tables, graph: QueryGraph) -> KnownStatistics:
    """The statistics for our optimizer: sizes of relations and of binary joins on a variable."""
    names = [relation.name for relation in graph.relations]
    joins = {}
    for edge in graph.edges:
        (left, left_rows), (right, right_rows) = (
            np.unique(tables[side][edge.variable], return_counts=True) for side in (edge.left, edge.right)
        )
        _, of_left, of_right = np.intersect1d(left, right, assume_unique=True, return_indices=True)
        joins[names[edge.left], names[edge.right], edge.variable] = float(left_rows[of_left] @ right_rows[of_right])
    rows = {name: float(len(next(iter(columns.values())))) for name, columns in zip(names, tables)}
    return KnownStatistics(rows, joins)


class Database:
    """The relations in DuckDB: the number of rows of every set of them, and DuckDB's join order."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        for i, columns in enumerate(tables):
            self._connection.register("given", dict(columns))
            self._connection.execute(f"CREATE TABLE r{i} AS SELECT * FROM given")
            self._connection.execute(f"ANALYZE r{i}")
            self._connection.unregister("given")
        self._rows: dict[RelationSet, float] = {}

    def rows(self, relations: RelationSet) -> float:
        """The number of rows of the join of a set of relations."""
        if relations not in self._rows:
            found = self._connection.execute(self._query(relations)).fetchone()
            assert found is not None
            self._rows[relations] = float(found[0])
        return self._rows[relations]

    def _query(self, relations: RelationSet) -> str:
        first: dict[str, int] = {}
        conditions = []
        for i in members(relations):
            for variable in self.tables[i]:
                if variable in first:
                    conditions.append(f"r{first[variable]}.{variable} = r{i}.{variable}")
                first.setdefault(variable, i)
        where = " WHERE " + " AND ".join(conditions) if conditions else ""
        return f"SELECT count(*) FROM {', '.join(f'r{i}' for i in members(relations))}{where}"

    def order(self) -> list[RelationSet]:
        """The joined sets of DuckDB's plan, one per join."""
        found = self._connection.execute("EXPLAIN (FORMAT JSON) " + self._query((1 << len(self.tables)) - 1)).fetchone()
        assert found is not None
        joined: list[RelationSet] = []

        def walk(node: Mapping[str, Any]) -> RelationSet:
            inside = [walk(child) for child in node["children"]]
            if "Table" in node["extra_info"]:
                return 1 << int(node["extra_info"]["Table"].rpartition(".r")[2])
            both = sum(inside)
            if len(inside) == 2:
                joined.append(both)
            return both

        everything = walk(json.loads(found[1])[0])
        assert everything == (1 << len(self.tables)) - 1, "not a plan of all relations"
        return joined


def compared(seed: int, most: int = 7) -> Compared:
    """The comparison for one random set of relations."""
    tables = random_tables(np.random.default_rng(seed), most)
    graph = QueryGraph([RelationNode(f"r{i}", frozenset(columns), i == 0) for i, columns in enumerate(tables)])
    optimizer = Optimizer(graph, ["r0"], RowsCost())
    choice = optimizer.choose({"r0": statistics(tables, graph)})["r0"]
    database = Database(tables)
    ours = sum(database.rows(left | right) for left, right in pairs(choice.plan, graph))
    theirs = sum(map(database.rows, database.order()))
    return Compared(len(tables), _optimum(graph, database), ours, theirs)


def _optimum(graph: QueryGraph, database: Database) -> float:
    """The least true C_out of any bushy tree without cross products."""
    least: dict[RelationSet, float] = {1 << i: 0.0 for i in range(len(graph.relations))}
    for left, right in sorted(join_pairs(graph) or (), key=lambda pair: size(pair[0] | pair[1])):
        both = left | right
        least[both] = min(least.get(both, math.inf), least[left] + least[right] + database.rows(both))
    return least[graph.everything]


def study(quick: bool, graphs: int | None = None) -> dict[str, Any]:
    """``graphs`` random sets of relations with a non-empty join: C_out over the optimum, ours and DuckDB's."""
    graphs = graphs or (50 if quick else 250)
    found = list(islice((one for one in map(compared, count()) if one.optimum > 0), graphs))
    return {
        "graphs": graphs,
        "relations": [min(one.relations for one in found), max(one.relations for one in found)],
        "over the optimum": {
            "ours": _summary(np.array([one.ours / one.optimum for one in found])),
            "duckdb": _summary(np.array([one.duckdb / one.optimum for one in found])),
        },
    }


def _summary(ratios: NDArray[np.float64]) -> dict[str, float]:
    return {
        "optimal": float((ratios < 1 + 1e-9).mean()),
        "geometric mean": float(np.exp(np.log(ratios).mean())),
        "median": float(np.median(ratios)),
        "95th percentile": float(np.quantile(ratios, 0.95)),
        "worst": float(ratios.max()),
    }


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    low, high = found["relations"]
    title = f"Join orders of {found['graphs']} random sets of {low} to {high} relations: rows of all joins over the optimum's"
    rows = found["over the optimum"]
    shown = table("", *numbers(*rows["ours"]), title=title)
    for name, summary in rows.items():
        shown.add_row(name, *(f"{v:.0%}" if heading == "optimal" else f"{v:.2f}×" for heading, v in summary.items()))
    console().print(shown)
