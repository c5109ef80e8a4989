"""The tunnel-ventilation benchmark of Keskisärkkä et al. 2021 (§5) and its follow-up, without Spark.

Filters run early, late, and by cost. Each run is the whole engine in one process; the time of a batch is that of its plans
(optimize and execute). Besides times it reports counts, which other load does not affect: evaluations of uncertainty functions,
and output rows of joins. Answers of all contenders must be the same bag, and those of a small tunnel are verified by the
independent evaluation. ``H3`` and ``H4`` order joins by the paper's heuristics H1 and H2 and so repeat its experiment; ``early``
and ``late`` differ from ``cost`` only in the placement of filters.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Prepared, Ran, check_same, joins_of, load, prepare
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.tunnel_data import CARDINALITIES, DRIFTS, SELECTIVITIES, Linked, Tunnel, linked_query, queries
from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.verification import judged
from cqels_opt.errors import RunError
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.rdf.static import StaticSource
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import read_inputs
from cqels_opt.windows.batch_size import BatchSize

Typical: TypeAlias = Callable[[Sequence[float]], float]
EVALUATION = 4_000  # milliseconds: COMPUTED EVERY
FULL = slice(3, None)  # batches with full windows
ALL_BUT_FIRST = slice(1, None)
COST = PlannerOptions()
CONTENDERS: Mapping[str, PlannerOptions] = {
    "H3": PlannerOptions("heuristic", placing="early"),
    "H4": PlannerOptions("heuristic", placing="late"),
    "early": PlannerOptions(placing="early"),
    "late": PlannerOptions(placing="late"),
    "cost": COST,
}
PLACED = ("early", "late", "cost")
ROUNDS = 3
LARGEST = 50  # sectors of Q2 and Q5 if all joins come first: four windows of ten seconds, 10,000 rows per sector


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: milliseconds per batch, answers, function evaluations, cache lookups and hits, and output rows of joins."""

    contender: str
    milliseconds: float
    answers: int
    evaluations: int
    hits: int
    looked_up: int
    joined: int


def study(quick: bool) -> dict[str, Any]:
    """The whole study: thresholds, lazy variables and the cache, the follow-up, and the verification."""
    with scratch_folder() as folder:
        verified = checked(folder / "checked")
        tunnel = Tunnel(40, 24) if quick else Tunnel()
        world = World(folder / "tunnel", *tunnel.write(folder / "tunnel"))
        small = world
        if tunnel.sectors > LARGEST:
            cut = replace(tunnel, sectors=LARGEST)
            small = World(folder / "small", *cut.write(folder / "small"))
        linked = Linked(200, 24) if quick else Linked()
        pair = World(folder / "linked", *linked.write(folder / "linked"))
        drifting = replace(linked, drifts=True)
        moving = World(folder / "drifting", *drifting.write(folder / "drifting"))
        return {
            "verified": verified,
            "sectors": {"Q1, Q3, Q4, Q6": tunnel.sectors, "Q2, Q5": min(tunnel.sectors, LARGEST)},
            "thresholds": thresholds(world, small, (0.5,) if quick else (0.1, 0.5, 0.9)),
            "lazy and cache": lazy_and_cache(world, small),
            "follow-up": follow_up(pair, SELECTIVITIES[::2] if quick else SELECTIVITIES),
            "drift": drift(moving),
        }


@dataclass(frozen=True, slots=True)
class World:
    """The files of a world, and the folder of its runs."""

    folder: Path
    static: Path
    streams: Mapping[str, Path]

    def prepared(self, name: str, text: str, late_binds: bool = True) -> Prepared:
        """A query over the world, cut into evaluations."""
        store = self.folder / "store"
        if not store.exists():
            load(store, [StaticSource(self.static)])
        at = self.folder / f"run-{name}{'' if late_binds else '-eager'}"
        size, replays = BatchSize(duration=EVALUATION), self.folder / "replays"
        return prepare(name, text, store, self.streams, at, size, late_binds=late_binds, replays=replays)


def measured(
    prepared: Prepared,
    contenders: Mapping[str, PlannerOptions],
    counted: slice = FULL,
    typical: Typical = median,
    rounds: int = 1,
) -> list[Measured]:
    """Runs the contenders alternately; RunError if answers differ.

    ``typical`` aggregates the milliseconds of the ``counted`` batches; of several ``rounds`` each contender's fastest counts,
    because other load only adds time.
    """
    runs: dict[str, list[Ran]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, mode in contenders.items():
            gc.collect()
            runs[name].append(prepared.run(name, mode))
    check_same([run for of in runs.values() for run in of])
    return [min((_measured(run, counted, typical) for run in of), key=lambda found: found.milliseconds) for of in runs.values()]


def _measured(run: Ran, counted: slice = FULL, typical: Typical = median) -> Measured:
    records = run.records[counted] or run.records
    calls = [call for record in records for call in record.calls]
    hits = sum(call.hits for call in calls)
    return Measured(
        run.name,
        typical([record.ms.optimize + record.ms.execute for record in records]),
        run.answers,
        sum(call.distinct for call in calls) - hits,
        hits,
        sum(call.looked_up for call in calls),
        sum(joined(record) for record in records),
    )


def joined(record: TraceRecord) -> int:
    """The output rows of joins after the filters that directly follow them, whether these are operators or not."""
    rows = 0
    for delta in record.deltas:
        operators = joins_of(delta)
        for operator, following in zip_longest(operators, operators[1:]):
            rows += 0 if following and following.op == "filter" else operator.observed or 0
    return rows


# ------------------------------------------------------------------ the parts
def thresholds(world: World, small: World, values: Sequence[float]) -> list[dict[str, Any]]:
    """Q1 to Q3 in both orders by threshold (the paper's Figure 1)."""
    found = []
    for threshold in values:
        for name, text in queries(threshold).items():
            if name[:2] in ("Q1", "Q2", "Q3"):
                prepared = (small if name.startswith("Q2") else world).prepared(f"{name}-{threshold}", text)
                runs = measured(prepared, CONTENDERS, rounds=ROUNDS)
                found.append({"query": name, "threshold": threshold, **_as_json(runs)})
    return found


def lazy_and_cache(world: World, small: World) -> list[dict[str, Any]]:
    """Q4 to Q6 in both orders with and without lazy variables and the cache (the paper's Figure 2)."""
    found = []
    for name, text in queries(0.5).items():
        if name[:2] in ("Q4", "Q5", "Q6"):
            place = small if name.startswith("Q5") else world
            runs = []
            for lazy in (True, False):
                for cache in (True, False):
                    label = f"{'lazy' if lazy else 'eager'}{', cache' if cache else ''}"
                    prepared = place.prepared(f"{name}-{label}", text, lazy)
                    runs.append(prepared.run(label, replace(COST, remember=cache)))
            check_same(runs)
            found.append({"query": name, **_as_json([_measured(run) for run in runs])})
    return found


def follow_up(world: World, selectivities: Sequence[float]) -> list[dict[str, Any]]:
    """Join cardinality × selectivity (the paper's Figure 3)."""
    found = []
    for cardinality in CARDINALITIES:
        for selectivity in selectivities:
            prepared = world.prepared(f"links{cardinality}-{selectivity}", linked_query(cardinality, selectivity))
            runs = measured(prepared, {name: CONTENDERS[name] for name in PLACED}, rounds=ROUNDS)
            found.append({"cardinality": cardinality, "selectivity": selectivity, **_as_json(runs)})
    return found


def drift(world: World) -> list[dict[str, Any]]:
    """The follow-up while the filter's selectivity changes from 5 to 95 %: mean milliseconds from the second batch onwards."""
    found = []
    for cardinality in CARDINALITIES:
        prepared = world.prepared(f"drift{cardinality}", linked_query(cardinality, DRIFTS[0]))
        runs = measured(prepared, {name: CONTENDERS[name] for name in PLACED}, ALL_BUT_FIRST, fmean, ROUNDS)
        found.append({"cardinality": cardinality, **_as_json(runs)})
    return found


def checked(folder: Path, sectors: int = 12) -> dict[str, int]:
    """Verifies Q1 to Q6 over a short tunnel with the independent evaluation: rows by query. RunError if they differ."""
    world = World(folder, *Tunnel(sectors=sectors, seconds=13, beyond=0.2).write(folder))
    inputs = read_inputs(list(world.streams.items()), [world.static], []).inputs
    found = {}
    for name, text in queries(0.3).items():
        file, out = folder / f"{name}.rq", folder / f"{name}.jsonl"
        file.write_text(text, encoding="utf-8")
        world.prepared(name, text).run(name, COST, out)
        verdicts, _, unjudged = judged(RunOptions(file, tuple(world.streams.items()), (world.static,)), inputs, out)
        if unjudged:
            raise RunError(f"{name} cannot be judged: {next(iter(unjudged.values()))}")
        (verdict,) = verdicts
        if not verdict.equal:
            raise RunError(f"{name}: {verdict.text()}")
        found[name] = verdict.rows
    return found


def _as_json(runs: Sequence[Measured]) -> dict[str, Any]:
    return {
        "answers": runs[0].answers,
        "milliseconds": {run.contender: round(run.milliseconds, 2) for run in runs},
        "evaluations": {run.contender: run.evaluations for run in runs},
        "joined rows": {run.contender: run.joined for run in runs},
        "hit rate": {run.contender: round(run.hits / run.looked_up, 3) if run.looked_up else None for run in runs},
    }


# ------------------------------------------------------------------ output
def show(found: Mapping[str, Any]) -> None:
    """Prints the study as tables."""
    print(f"verified against the independent evaluation, rows: {', '.join(f'{q} {n:,}' for q, n in found['verified'].items())}")
    _show("Median ms per batch by threshold", ("query", "threshold"), found["thresholds"])
    _show("Median ms per batch with and without lazy variables and cache", ("query",), found["lazy and cache"])
    _show("Median ms per batch by join cardinality × selectivity", ("cardinality", "selectivity"), found["follow-up"])
    _show("Mean ms per batch while selectivity goes from 5 to 95 %, by join cardinality", ("cardinality",), found["drift"])


def _show(title: str, keys: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints milliseconds and, in a second table, counts: function evaluations and, in brackets, joined rows."""
    contenders = list(rows[0]["milliseconds"])
    caching = "cost" if "cost" in contenders else contenders[0]
    times = table(*keys, *contenders, f"hit rate of {caching}", "answers", title=title)
    counts = table(*keys, *contenders, title=f"{title}: evaluations (joined rows)")
    for row in rows:
        head, rate = [str(row[key]) for key in keys], row["hit rate"][caching]
        cells = [f"{row['milliseconds'][name]:,.1f}" for name in contenders]
        times.add_row(*head, *cells, "-" if rate is None else f"{rate:.2f}", f"{row['answers']:,}")
        counts.add_row(*head, *(f"{row['evaluations'][name]:,} ({row['joined rows'][name]:,})" for name in contenders))
    console().print(times)
    console().print(counts)
