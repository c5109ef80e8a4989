"""Calibration: the constants of the cost model in seconds on this machine, fitted to timings of the executor's own operators.

Each experiment runs a plan over a synthetic window and relations of several sizes, as a batch would, and states the units of each kind of
work in it. The constants are the non-negative ones with the least relative errors over all experiments (Du, Krishnamurthy and Shan
1992 calibrate a cost model like this). This is the one module of the planner that runs the executor: to time it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import log2
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy  # imports its solver on first use, which most processes never reach

from cqels_opt.lod.build import build_store
from cqels_opt.lod.relation import Relation
from cqels_opt.operators.blocks import Block, BlockFilter, PatternOccurrence, Static
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.evaluation_step import NO_INSTANT, EvaluationStep, StepFiles
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import Constants, DeltaRule, parse_plan
from cqels_opt.query.algebra import Call, Constant, Variable, Window
from cqels_opt.rdf import ids as term_ids
from cqels_opt.storage.columns import write_columns
from cqels_opt.windows.binding_slots import Shape, SlotFile

Work: TypeAlias = "Mapping[str, float]"
"""Units of work by the names of their constants; a name that is no constant absorbs other costs."""

STREAM, TIME = "urn:calibration", 1 << 30
NODES = 1 << 60  # ids from here on are of IRIs
WINDOWS = (1, 50, 1_000, 15_000)  # rows of the deltas
STATICS = ((1 << 8, 1), (1 << 13, 1), (1 << 13, 12), (1 << 17, 1))  # keys of the relations, and rows per key
MOST = 200_000  # rows of a join: beyond, an experiment takes too long
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
LESS = Call("<", (Variable("a"), Constant(f'"500"^^<{INTEGER}>')))
ROUNDS = 5
FITS = 8


@dataclass(frozen=True, slots=True)
class Experiment:
    """A function to run, and the work in it."""

    work: Work
    run: Callable[[], object]


Timer: TypeAlias = "Callable[[Sequence[Experiment]], list[float]]"
"""The seconds of each experiment."""


def least_seconds(
    experiments: Sequence[Experiment], rounds: int = ROUNDS, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """The least time of each experiment over several rounds, by default processor time of this process.

    Other load on the machine can only add to a time.
    """
    taken = [float("inf")] * len(experiments)
    for number in range(rounds + 1):
        for i, experiment in enumerate(experiments):
            began = clock()
            experiment.run()
            if number:  # the first round warms up
                taken[i] = min(taken[i], clock() - began)
    return taken


def fitted(timings: Iterable[tuple[Work, float]]) -> dict[str, float]:
    """Seconds a unit of each kind of work, none negative, with the least relative errors.

    The sum of (estimate - time)² / (estimate · time) counts a factor too high like the same factor too low; a few rounds of
    weighted least squares find it.
    """
    timed = [(work, seconds) for work, seconds in timings if seconds > 0]
    names = sorted({name for work, _ in timed for name in work})
    units = np.array([[work.get(name, 0.0) for name in names] for work, _ in timed])
    seconds = np.array([seconds for _, seconds in timed])
    largest = np.maximum((units / seconds[:, None]).max(axis=0), np.finfo(float).tiny)  # columns of like size, for the solver
    estimate = seconds
    for _ in range(FITS):
        weight = np.sqrt((seconds + estimate) / seconds) / estimate
        solution, _ = scipy.optimize.nnls(units / largest * weight[:, None], seconds * weight)
        estimate = np.maximum(units @ (solution / largest), seconds / 100)
    return dict(zip(names, (solution / largest).tolist()))


def measure(timer: Timer = least_seconds) -> dict[str, float]:
    """The operators' constants of this machine, by name. Takes about two seconds."""
    with tempfile.TemporaryDirectory(prefix="cqels-opt-calibration-") as folder:
        tried = list(experiments(SyntheticData(Path(folder))))
        found = fitted(zip([experiment.work for experiment in tried], timer(tried)))
    known = {f.name for f in fields(Constants)}
    return {name: seconds for name, seconds in found.items() if name in known}


class _TimedJoin(DeltaJoin):
    """Joins that do all of their work again each time."""

    keeps_builds = False


class SyntheticData:
    """A state folder with a window's slot for each size of a delta, rows (k, a); and static relations, rows (k, c)."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(1)
        build_store(folder / "store", [], durable=False)
        (folder / "slots").mkdir()
        self.folder, self.terms = folder, TermTable(term_ids.PUBLIC, None)
        numbers = term_ids.encode([f'"{i}"^^<{INTEGER}>' for i in range(1000)], term_ids.PUBLIC)
        keys = np.unique(random.integers(NODES, 2 * NODES, 2 * max(known for known, _ in STATICS)))
        known_of = [keys[:: len(keys) // known] for known, _ in STATICS]
        pools = [*known_of, random.integers(NODES, 2 * NODES, 1000)]  # the last: in no relation
        self.statics: list[Static] = []
        for i, (_, fan_out) in enumerate(STATICS):
            mine = random.permutation(np.repeat(known_of[i], fan_out))
            relation = Relation.build({"k": mine, f"c{i}": random.integers(NODES, 2 * NODES, len(mine))})
            relation.save(folder / f"r{i}", [("k",)])
            self.statics.append(Static(f"r{i}", ("k", f"c{i}"), str(folder / f"r{i}"), relation.rows))
        self.windows: list[PatternOccurrence] = []
        self.slots: list[SlotFile] = []
        for i, size in enumerate(WINDOWS):
            shape = Shape(STREAM, (0, i + 1, 0), (0, -1, 1))
            path = f"slots/slot-{i}-{shape.key}.arrow"
            sought = np.choose(random.integers(0, len(pools), size), [random.choice(pool, size) for pool in pools])
            columns = {"v0": sought, "v1": random.choice(numbers, size)}
            write_columns(folder / path, {"t": np.sort(random.integers(1, TIME, size)), "e": np.arange(size), **columns})
            self.slots.append(SlotFile("slot", path, STREAM, shape.key, size, 1, TIME))
            self.windows.append(PatternOccurrence(f"w{i}", Window("w", STREAM, "range", TIME), 0, shape, ("k", "a")))

    def counts(self, window: int, then: str, filters: Sequence[BlockFilter] = ()) -> list[int]:
        """Runs the plan that begins with a window and continues with the text ``then``; returns the rows of its operators."""
        source = self.windows[window].name
        block = Block("b", (self.windows[window],), tuple(self.statics), tuple(filters), ("k", "a"))
        plans, rules = {"b": {source: parse_plan(f"{source}{then}")}}, {"b": DeltaRule((source,))}
        instants = np.array([NO_INSTANT], np.int64)
        step = EvaluationStep(str(self.folder), str(self.folder), 0, 0, TIME, instants, StepFiles(self.slots), {}, plans, rules)
        joins = _TimedJoin(block, str(self.folder / "store"), step, self.terms)
        for _ in joins.rows():
            continue
        return joins.observed.operators[source]

    def experiment(self, window: int, then: str, work: Work, filters: Sequence[BlockFilter] = ()) -> Experiment:
        """That plan as an experiment."""
        return Experiment(work, lambda: self.counts(window, then, filters))


def experiments(world: SyntheticData) -> Iterator[Experiment]:
    """All experiments. The rows of joins are counted first; the constant for an operator includes the start of its plan."""
    for w, size in enumerate(WINDOWS):
        yield world.experiment(w, "", {"start": 1, "scan": size})
        for chain in ([0], [1], [2], [3], [1, 3], [0, 1, 2, 3]):
            then = "".join(f" » r{i}[?k]" for i in chain)
            left = world.counts(w, then)
            halvings = sum(rows * log2(world.statics[i].rows) for i, rows in zip(chain, left))
            if max(left) <= MOST:
                joins = {"operator": len(chain), "probe": sum(left[:-1]), "step": halvings, "produce": sum(left[1:])}
                yield world.experiment(w, then, {"scan": size, **joins})
        for i, static in enumerate(world.statics[:3]):
            then = f" » (r{i})[?k]"
            produced = world.counts(w, then)[-1]
            if produced <= MOST:
                join = {"operator": 1, "build": static.rows, "match": size, "produce": produced}
                yield world.experiment(w, then, {"scan": size + static.rows, **join})
        yield world.experiment(w, "", {"filtering": 1, "scan": size, "evaluate": size}, [BlockFilter("f", LESS, frozenset("a"))])
