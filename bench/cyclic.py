"""Cyclic patterns over a graph stream: multiway joins, binary plans, and DuckDB's re-evaluation.

Each element is an edge, and the window has all of them. The last micro-batch has some edges of the most frequent node, the *hub*; all
other edges come in the batches before. Rows are those that joins gave or verified. The ends of the edges are independent and Zipf
distributed, except for a planted hub; or the edges are citations of the ACL Anthology Network. ``python -m cqels_opt.bench.cyclic
--help`` lists the options.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from cqels_opt.bench.answers import Bag, answers_of_lines
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.arguments import at_least, within
from cqels_opt.bench.contenders import Done, StoppedError, Task, duck
from cqels_opt.bench.local import Prepared, load, prepare
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.shared_data import read_citations, read_papers
from cqels_opt.bench.social import START
from cqels_opt.errors import RunError
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.batch_size import BatchSize

SEED = 1
STREAM = "http://example.org/edges"
TO = "http://example.org/to"
NODE = "http://example.org/n"
BATCHES = 4
"""Batches before that of the hub."""
HELD_BACK = 0.1
"""The share of the hub's edges that the last batch has."""

HOUR = 3_600_000  # milliseconds

DUCKDB = "DuckDB"
LONGEST = 60.0
"""Seconds after which an evaluation by DuckDB is stopped."""

EDGES = {"triangle": 20_000, "diamond": 15_000, "2-triangle": 10_000, "4-clique": 7_500}
"""As many for each pattern as the binary plans evaluate in some gigabytes."""

QUICK = 600
"""Edges of the quick form."""

PATTERNS: Mapping[str, str] = {
    "triangle": "ab bc ac",
    "diamond": "ab ac bd cd b!=c",
    "2-triangle": "ab bc ac bd ad c!=d",
    "4-clique": "ab ac ad bc bd cd",
}
"""The patterns of Ammar et al. 2018 (§5), and two triangles with a common edge: an edge per word, from its first letter to its second, and
variables that differ."""

MODES: Mapping[str, PlannerOptions] = {
    "multiway": PlannerOptions(),
    "binary, split": PlannerOptions(multiway=False),
    "binary": PlannerOptions(multiway=False, split=False),
}

Edges = NDArray[np.int64]
"""Distinct edges, one per row: the numbers of their nodes."""


def power_law(edges: int, hub: float, exponent: float = 0.7) -> Edges:
    """Distinct edges whose ends are Zipf distributed over as many nodes. A share ``hub`` of the edges begins or ends at one more node."""
    random = np.random.default_rng(SEED)
    weights = np.arange(1, edges + 1) ** -exponent
    spokes = random.choice(np.arange(1, edges + 1), round(hub * edges), replace=False)
    at_hub = np.stack([spokes, np.zeros_like(spokes)], axis=1)
    at_hub[::2] = at_hub[::2, ::-1]
    found = np.empty((0, 2), np.int64)
    while len(found) < edges - len(at_hub):
        more = 1 + random.choice(edges, (edges, 2), p=weights / weights.sum())
        found = np.unique(np.concatenate([found, more[more[:, 0] != more[:, 1]]]), axis=0)
    return random.permutation(np.concatenate([random.permutation(found)[: edges - len(at_hub)], at_hub]))


def citations(data: Path, edges: int) -> Edges:
    """The first citations of the ACL Anthology Network, each of a paper by a later one or of the same year."""
    pairs = read_citations(data, {paper.id for paper in read_papers(data)})
    number = {name: i for i, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
    found = np.unique(np.array([(number[a], number[b]) for a, b in pairs if a != b], np.int64), axis=0)
    return np.random.default_rng(SEED).permutation(found)[:edges]


def hub_last(edges: Edges) -> tuple[Edges, int]:
    """The edges with some of the hub's edges at the end, and their number."""
    nodes, degrees = np.unique(edges, return_counts=True)
    at_hub = np.flatnonzero((edges == nodes[degrees.argmax()]).any(axis=1))
    last = at_hub[: max(1, round(HELD_BACK * len(at_hub)))]
    return np.concatenate([np.delete(edges, last, axis=0), edges[last]]), len(last)


def parts(pattern: str) -> tuple[list[str], list[list[str]]]:
    """The edges of a pattern, and the pairs of variables that differ."""
    words = pattern.split()
    return [word for word in words if "!" not in word], [word.split("!=") for word in words if "!" in word]


def query(pattern: str) -> str:
    """The query of a pattern in SPARQL."""
    words, apart = parts(pattern)
    body = " . ".join(f"?{word[0]} <{TO}> ?{word[1]}" for word in words)
    names = " ".join(f"?{v}" for v in sorted(set("".join(words))))
    filters = " ".join(f"FILTER(?{a} != ?{b})" for a, b in apart)
    return f"SELECT {names} FROM NAMED <{STREAM}> [RANGE 1000 h] AS ?w WHERE {{ GRAPH ?w {{ {body} }} {filters} }}"


def sql(pattern: str) -> str:
    """The same in SQL: the rows of which one edge is new."""
    words, apart = parts(pattern)
    place = {v: f"e{i}.{'so'[word.index(v)]}" for i, word in reversed([*enumerate(words)]) for v in word}
    equal = [f"{place[v]} = e{i}.{column}" for i, word in enumerate(words) for v, column in zip(word, "so")]
    equal = [one for one in equal if one.split(" = ")[0] != one.split(" = ")[1]]
    where = " AND ".join([*equal, *(f"{place[a]} <> {place[b]}" for a, b in apart)])
    newest = f"greatest({', '.join(f'e{i}.t' for i in range(len(words)))})"
    shown = ", ".join(f"{place[v]}[2:-2] AS {v}" for v in sorted(place))
    tables = ", ".join(f"recent_elements e{i}" for i in range(len(words)))
    return f"SELECT {newest} AS time, {shown} FROM {tables} WHERE {where} AND {newest} >= (SELECT min(t) FROM now_elements)"


@dataclass(frozen=True, slots=True)
class Measured:
    """A run: its answers (None: it stopped), and for each of its batches seconds, CPU seconds and the rows of joins (None: unknown)."""

    answers: Bag | None
    seconds: tuple[float, ...]
    cpu: tuple[float, ...]
    rows: tuple[int, ...] | None


def rows_read(record: TraceRecord) -> int:
    """The rows that the joins of a batch gave or verified."""
    steps = [step for delta in record.deltas for step in delta.operators if step.op != "scan"]
    return sum((step.observed or 0) + (step.candidates or 0) for step in steps)


def timed(batches: Iterable[Callable[[], Any]]) -> tuple[list[Any], tuple[float, ...], tuple[float, ...]]:
    """The results of calls, with the seconds and the CPU seconds of each."""
    found, clocks = [], [(time.perf_counter(), time.process_time())]
    for batch in batches:
        found.append(batch())
        clocks.append((time.perf_counter(), time.process_time()))
    seconds, cpu = (tuple(np.diff([clock[i] for clock in clocks]).tolist()) for i in (0, 1))
    return found, seconds, cpu


def engine(prepared: Prepared, mode: PlannerOptions, state: Path) -> Measured:
    """The engine without Spark."""
    sink, bag = LocalSink(), Bag()
    driver = prepared.driver(state, sink, mode=mode)
    records, seconds, cpu = timed(partial(driver.batch, number, rows) for number, rows in enumerate(prepared.chunks()))
    bag.add(answers_of_lines(sink.lines))
    return Measured(bag, seconds, cpu, tuple(sum(map(rows_read, of)) for of in records))


def duckdb(prepared: Prepared, pattern: str, stream: Path, folder: Path) -> Measured:
    """DuckDB's re-evaluation with every batch, until one takes too long."""
    folder.mkdir()
    (folder / "views.sql").write_text("SELECT 1", encoding="utf-8")
    (folder / "q.sql").write_text(sql(pattern), encoding="utf-8")
    streams, batch = {STREAM: stream}, BatchSize(count=1)
    options = {"duckdb.seconds": LONGEST}
    task = Task("q", query(pattern), streams, (), {}, folder, prepared.replay, batch, folder, folder, options)
    run, bag = duck.run(task, folder), Bag()
    next(run)  # it is ready; this and the conversion of answers are not measured
    stopped = False

    def step() -> Done | None:
        nonlocal stopped
        try:
            return next(filter(None, run))
        except StoppedError:
            stopped = True
            return None

    batches, seconds, cpu = timed(step for _ in takewhile(lambda _: not stopped, task.chunks))
    bag.add(answer for done in batches if done is not None for answer in done.answers)
    return Measured(None if stopped else bag, seconds, cpu, None)


def write(edges: Edges, last: int, file: Path) -> None:
    """The stream: an edge each millisecond, and an hour for each batch."""
    before = len(edges) - last
    place = np.arange(before)
    batch = np.append(place * BATCHES // before, np.full(last, BATCHES))
    times = START + batch * HOUR + np.append(place, np.arange(last)) % HOUR
    terms = [[f"<{NODE}{i}>" for i in column.tolist()] for column in edges.T]
    parquet.write_table(pa.table({"s": terms[0], "p": [f"<{TO}>"] * len(edges), "o": terms[1], "t": pa.array(times)}), file)


def study(
    quick: bool,
    edges: int | None = None,
    data: Path | None = None,
    patterns: Sequence[str] = (),
    modes: Sequence[str] = (),
    hub: float = 0.5,
) -> dict[str, Any]:
    """Rows and seconds of each pattern under each kind of plans and by DuckDB, whose answers must be equal."""
    found = []
    with scratch_folder() as folder:
        store = load(folder / "store", [])
        for name in patterns or PATTERNS:
            many = (QUICK if quick else EDGES[name]) if edges is None else edges
            graph, last = hub_last(power_law(many, hub) if data is None else citations(data, many))
            at = folder / name
            write(graph, last, stream := folder / f"{name}.parquet")
            prepared = prepare("q", query(PATTERNS[name]), store, {STREAM: stream}, at, BatchSize(duration=HOUR))
            runs = {mode: engine(prepared, MODES[mode], at / f"state-{i}") for i, mode in enumerate(modes or MODES)}
            runs[DUCKDB] = duckdb(prepared, PATTERNS[name], stream, at / "duck")
            found.append({"pattern": name, "edges": len(graph), "at the hub": last, **compared(runs)})
    return {"seed": SEED, "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "patterns": found}


def compared(runs: Mapping[str, Measured]) -> dict[str, Any]:
    """The figures of the runs of one pattern. RunError if their answers differ."""
    (first, found), *others = ((name, run.answers) for name, run in runs.items() if run.answers is not None)
    for name, answers in others:
        if difference := found.difference(answers):
            raise RunError(f"{first} and {name} have other answers, {difference}: this is a bug")
    batches = len(runs[first].seconds)
    return {
        "answers": found.total,
        "runs": {
            name: {
                "stopped": run.answers is None,
                "rows": None if run.rows is None else sum(run.rows),
                "rows at the hub": None if run.rows is None else run.rows[-1],
                "s": sum(run.seconds),
                "s at the hub": run.seconds[-1] if len(run.seconds) == batches else None,
                "CPU s": sum(run.cpu),
                "CPU s at the hub": run.cpu[-1] if len(run.cpu) == batches else None,
            }
            for name, run in runs.items()
        },
    }


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    heads = ("rows", "rows at the hub", "s", "s at the hub", "CPU s", "CPU s at the hub")
    columns = numbers("edges", "at the hub", "answers", *heads)
    shown = table("pattern", "plans", *columns, title=f"Cyclic patterns; peak memory {found['peak MB']:,.0f} MB")
    for one in found["patterns"]:
        for name, run in one["runs"].items():
            cells = ["-" if run[key] is None else f"{run[key]:,}" if "rows" in key else f"{run[key]:.3f}" for key in heads]
            cells = [f"> {cell}" if run["stopped"] and cell != "-" else cell for cell in cells]
            counts = (f"{one[key]:,}" for key in ("edges", "at the hub", "answers"))
            shown.add_row(one["pattern"], name, *counts, *cells)
    console().print(shown)


def main() -> None:
    """Runs the study with its own options."""
    parser = argparse.ArgumentParser(description="Cyclic patterns over a graph stream.")
    parser.add_argument(
        "--edges", type=at_least(2), help=f"distinct edges (default: {', '.join(f'{n:,}' for n in EDGES.values())})"
    )
    parser.add_argument("--data", type=Path, help="the folder of the data sets: citations in place of generated edges")
    parser.add_argument("--pattern", action="append", choices=[*PATTERNS], default=[], help="only this pattern (can be repeated)")
    parser.add_argument("--plans", action="append", choices=[*MODES], default=[], help="only these plans (can be repeated)")
    parser.add_argument("--quick", action="store_true", help="a small graph")
    share = within(float, 0, 1, "a share from 0 to 1")
    parser.add_argument("--hub", type=share, default=0.5, help="the share of generated edges at a planted hub (default: 0.5)")
    given = parser.parse_args()
    show(study(given.quick, given.edges, given.data, given.pattern, given.plans, given.hub))


if __name__ == "__main__":
    main()
