"""Operators above the joins while the window grows at a constant input rate: incremental, and recomputed from all rows per batch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Prepared, Ran, check_same, load, prepare
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import START
from cqels_opt.operators.algebra.operator import evaluate
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.key_pushdown import Pushdown
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime import evaluate as stage
from cqels_opt.windows.batch_size import BatchSize

SEED = 1
EX = "http://example.org/"
STREAM = f"{EX}S"
SECOND = 1_000  # milliseconds per batch
PLACES = 100
MEASURED = 5  # batches at the end, when the window is full
QUERIES = {
    "OPTIONAL, COUNT a place": (
        "?x (COUNT(?a) AS ?k) (COUNT(?v) AS ?m)",
        "GRAPH ?w {?a :at ?x} OPTIONAL {GRAPH ?r {?a :val ?v}}",
        "GROUP BY ?x",
    ),
    "MAX a person": ("?a (MAX(?v) AS ?m)", "GRAPH ?w {?a :val ?v}", "GROUP BY ?a"),
    "COUNT and SUM of all": ("(COUNT(?a) AS ?k) (SUM(?v) AS ?s)", "GRAPH ?w {?a :val ?v}", ""),
    "MINUS": ("?a ?x", "GRAPH ?w {?a :at ?x} MINUS {GRAPH ?r {?a :val ?v}}", ""),
    "DISTINCT": ("DISTINCT ?a", "GRAPH ?w {?a :at ?x}", ""),
}
WAYS = ("incrementally", "from all rows")


@contextmanager
def from_all_rows() -> Iterator[None]:
    """Recomputes everything above the joins in each step."""
    made_again = property(lambda program: Pushdown(program.tree, program.blocks, program.variables))
    with (
        patch.object(stage, "changing", evaluate),
        patch.object(Pushdown, "additive", {}),
        patch.object(CompiledProgram, "pushdown", made_again),  # a program keeps the one that it has
    ):
        yield


def write(folder: Path, seconds: int, rate: int) -> Path:
    """A stream of people at places and, for one element in five, a value; ten instants per second."""
    random, size = np.random.default_rng(SEED), seconds * rate
    person, place, value = (random.integers(0, most, size) for most in (40 * rate, PLACES, 9))
    valued = random.random(size) < 0.2
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    objects = [f'"{v}"{integer}' if is_value else f"<{EX}x{x}>" for v, x, is_value in zip(value, place, valued)]
    times = START + np.arange(size) * SECOND // rate // 100 * 100
    columns: dict[str, Any] = {
        "s": [f"<{EX}p{i}>" for i in person],
        "p": [f"<{EX}val>" if is_value else f"<{EX}at>" for is_value in valued],
        "o": objects,
        "t": times,
    }
    parquet.write_table(pa.table(columns), path := folder / f"stream{seconds}.parquet")
    return path


def text(name: str, seconds: int) -> str:
    """A query over windows of ``seconds`` seconds."""
    select, body, modifiers = QUERIES[name]
    windows = " ".join(f"FROM NAMED <{STREAM}> [RANGE {seconds} s] AS ?{w}" for w in "wr" if f"GRAPH ?{w} " in body)
    return f"PREFIX : <{EX}> SELECT {select} {windows} WHERE {{ {body} }} {modifiers}"


def study(quick: bool) -> dict[str, Any]:
    """Milliseconds of the joins and the operators above them, and rows read, per batch, for windows of increasing size."""
    rate, sizes = (200, (3, 9)) if quick else (5_000, (10, 30))
    found = []
    with scratch_folder() as folder:
        store = load(folder / "store", [])
        for seconds in sizes:
            stream = write(folder, seconds + MEASURED + 1, rate)
            for i, name in enumerate(QUERIES):
                at = folder / f"q{i}-{seconds}"
                query = prepare(f"q{i}", text(name, seconds), store, {STREAM: stream}, at, BatchSize(duration=SECOND))
                runs = _both(query)
                check_same(runs)
                found.append({"query": name, "window": seconds * rate, **{run.name: _batch(run) for run in runs}})
    return {"seed": SEED, "elements a batch": rate, "places": PLACES, "queries": found}


def _both(query: Prepared) -> list[Ran]:
    one = query.run(WAYS[0], PlannerOptions())
    with from_all_rows():
        return [one, query.run(WAYS[1], PlannerOptions())]


def _batch(run: Ran) -> dict[str, float]:
    """The medians of the last full batches (the very last one is partial)."""
    records = run.records[-MEASURED - 1 : -1]
    return {
        "rows": statistics.median(record.recomputed or 0 for record in records),
        "ms": statistics.median(record.ms.execute for record in records),
    }


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    title = f"{found['elements a batch']:,} elements a batch: rows read above the joins, and ms of joins and above"
    heads = numbers("window", *(f"{what} {way}" for way in WAYS for what in ("rows", "ms")), f"ms {WAYS[1]} / {WAYS[0]}")
    shown = table("query", *heads, title=title)
    for one in found["queries"]:
        cells = [
            f"{one[way][what]:,.0f}" if what == "rows" else f"{one[way][what]:.1f}" for way in WAYS for what in ("rows", "ms")
        ]
        shown.add_row(one["query"], f"{one['window']:,}", *cells, f"{one[WAYS[1]]['ms'] / one[WAYS[0]]['ms']:.1f}")
    console().print(shown)
