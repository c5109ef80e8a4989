"""The tunnel-ventilation benchmark of Keskisärkkä et al. 2021 (§5) and its follow-up, without Spark: filters early, late, and by cost.

Each run is the whole engine in one process; the time of a batch is that of its plans (optimize and execute). Answers of all
contenders must be the same bag, and a small tunnel's are checked against the independent evaluation. ``H3`` and ``H4`` order joins by
the paper's heuristics H1 and H2 and so repeat its experiment; ``early`` and ``late`` differ from ``cost`` in nothing but where filters
stand.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from cqels_opt.asked import judged
from cqels_opt.bench.local import Prepared, Ran, check_same, load, prepare
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.tunnel_data import CARDINALITIES, SELECTIVITIES, Linked, Tunnel, linked_query, queries
from cqels_opt.errors import RunError
from cqels_opt.operators.planner import PlanMode
from cqels_opt.options import RunOptions
from cqels_opt.rdf.static import StaticSource
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import read_inputs
from cqels_opt.windows.replay import BatchSize

EVALUATION = 4_000  # milliseconds: COMPUTED EVERY
WARM_UP = 3  # batches until the windows are full
COST = PlanMode()
CONTENDERS: Mapping[str, PlanMode] = {
    "H3": PlanMode("heuristic", placing="early"),
    "H4": PlanMode("heuristic", placing="late"),
    "early": PlanMode(placing="early"),
    "late": PlanMode(placing="late"),
    "cost": COST,
}
PLACED = ("early", "late", "cost")
LARGEST = 50  # sectors of Q2 and Q5 where everything is joined first: four windows of ten seconds, 10,000 rows a sector


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: median milliseconds of a batch, how many of its batches switched a plan, answers, and calls of functions."""

    contender: str
    milliseconds: float
    answers: int
    distinct: int
    hits: int
    looked_up: int


def study(quick: bool) -> dict[str, Any]:
    """All of it: thresholds, lazy variables and the cache, the follow-up, and what was verified."""
    with tempfile.TemporaryDirectory(prefix="cqels-opt-bench-") as scratch:
        folder = Path(scratch)
        verified = checked(folder / "checked")
        tunnel = Tunnel(40, 24) if quick else Tunnel()
        world = _World(folder / "tunnel", *tunnel.write(folder / "tunnel"))
        small = world
        if tunnel.sectors > LARGEST:
            cut = replace(tunnel, sectors=LARGEST)
            small = _World(folder / "small", *cut.write(folder / "small"))
        linked = Linked(200, 24) if quick else Linked()
        pair = _World(folder / "linked", *linked.write(folder / "linked"))
        return {
            "verified": verified,
            "sectors": {"Q1, Q3, Q4, Q6": tunnel.sectors, "Q2, Q5": min(tunnel.sectors, LARGEST)},
            "thresholds": thresholds(world, small, (0.5,) if quick else (0.1, 0.5, 0.9)),
            "lazy and cache": lazy_and_cache(world, small),
            "follow-up": follow_up(pair, SELECTIVITIES[::2] if quick else SELECTIVITIES),
        }


@dataclass(frozen=True, slots=True)
class _World:
    """Files of a world, and where its runs leave theirs."""

    folder: Path
    static: Path
    streams: Mapping[str, Path]

    def prepared(self, name: str, text: str, lazy: bool = True) -> Prepared:
        """A query over the world, cut into evaluations."""
        store = self.folder / "store"
        if not store.exists():
            load(store, [StaticSource(self.static)])
        at = self.folder / f"run-{name}{'' if lazy else '-eager'}"
        return prepare(name, text, store, self.streams, at, BatchSize(duration=EVALUATION), lazy=lazy)


def measured(prepared: Prepared, contenders: Mapping[str, PlanMode]) -> list[Measured]:
    """The contenders one after the other; RunError where answers differ."""
    runs: list[Ran] = []
    for name, mode in contenders.items():
        gc.collect()
        runs.append(prepared.run(name, mode))
    check_same(runs)
    return [_measured(run) for run in runs]


def _measured(run: Ran) -> Measured:
    counted = run.records[WARM_UP:] or run.records
    calls = [call for record in counted for call in record.calls]
    return Measured(
        run.name,
        median(_milliseconds(record) for record in counted),
        run.answers,
        sum(call.distinct for call in calls),
        sum(call.hits for call in calls),
        sum(call.looked_up for call in calls),
    )


def _milliseconds(record: TraceRecord) -> float:
    return record.ms.optimize + record.ms.execute


# ------------------------------------------------------------------ the parts
def thresholds(world: _World, small: _World, values: Sequence[float]) -> list[dict[str, Any]]:
    """Q1 to Q3 in both orders by threshold (the paper's Figure 1)."""
    found = []
    for threshold in values:
        for name, text in queries(threshold).items():
            if name[:2] in ("Q1", "Q2", "Q3"):
                prepared = (small if name.startswith("Q2") else world).prepared(f"{name}-{threshold}", text)
                runs = measured(prepared, CONTENDERS)
                found.append({"query": name, "threshold": threshold, **_as_json(runs)})
    return found


def lazy_and_cache(world: _World, small: _World) -> list[dict[str, Any]]:
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


def follow_up(world: _World, selectivities: Sequence[float]) -> list[dict[str, Any]]:
    """Join cardinality × selectivity (the paper's Figure 3)."""
    found = []
    for cardinality in CARDINALITIES:
        for selectivity in selectivities:
            prepared = world.prepared(f"links{cardinality}-{selectivity}", linked_query(cardinality, selectivity))
            runs = measured(prepared, {name: CONTENDERS[name] for name in PLACED})
            found.append({"cardinality": cardinality, "selectivity": selectivity, **_as_json(runs)})
    return found


def checked(folder: Path) -> dict[str, int]:
    """Q1 to Q6 over a short tunnel against the independent evaluation: rows by query. RunError where they differ."""
    world = _World(folder, *Tunnel(sectors=12, seconds=13, beyond=0.2).write(folder))
    inputs = read_inputs(list(world.streams.items()), [world.static], []).inputs
    found = {}
    for name, text in queries(0.3).items():
        file, out = folder / f"{name}.rq", folder / f"{name}.jsonl"
        file.write_text(text, encoding="utf-8")
        world.prepared(name, text).run(name, COST, out)
        (verdict,), _ = judged(RunOptions(file, tuple(world.streams.items()), (world.static,)), inputs, out)
        if not verdict.equal:
            raise RunError(f"{name}: {verdict.text()}")
        found[name] = verdict.rows
    return found


def _as_json(runs: Sequence[Measured]) -> dict[str, Any]:
    return {
        "answers": runs[0].answers,
        "milliseconds": {run.contender: round(run.milliseconds, 2) for run in runs},
        "distinct arguments": {run.contender: run.distinct for run in runs},
        "hit rate": {run.contender: round(run.hits / run.looked_up, 3) if run.looked_up else None for run in runs},
    }


# ------------------------------------------------------------------ showing it
def show(found: Mapping[str, Any]) -> None:
    """The study as tables."""
    print(f"verified against the independent evaluation, rows: {', '.join(f'{q} {n:,}' for q, n in found['verified'].items())}")
    _show("Median milliseconds of a batch by threshold", ("query", "threshold"), found["thresholds"])
    _show("With and without lazy variables and cache", ("query",), found["lazy and cache"])
    _show("Join cardinality × selectivity", ("cardinality", "selectivity"), found["follow-up"])


def _show(title: str, keys: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    contenders = list(rows[0]["milliseconds"])
    shown = table(title=title)
    for head in keys:
        shown.add_column(head)
    for name in (*contenders, "hit rate", "answers"):
        shown.add_column(name, justify="right")
    for row in rows:
        rate = row["hit rate"][contenders[-1] if "cost" in contenders else contenders[0]]
        cells = [f"{row['milliseconds'][name]:,.1f}" for name in contenders]
        shown.add_row(*(str(row[key]) for key in keys), *cells, "-" if rate is None else f"{rate:.2f}", f"{row['answers']:,}")
    console().print(shown)
