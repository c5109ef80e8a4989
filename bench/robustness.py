"""How far plans fall in the worst case: random orders, the first batch after a change of the data, and false statistics.

Each part measures one row or several of the table. All answers are compared with the independent evaluation or with those of other plans,
which give the same answers, before a figure is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cqels_opt.bench import order_spread
from cqels_opt.bench.drift import drifting_queries, measure, plans_of
from cqels_opt.bench.false_statistics import FALSIFIED, run_with_false
from cqels_opt.bench.local import Ran, check_same, rows_produced
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.planner.planner_options import PlannerOptions

SEED = 1
TRUE, FLIP = "true statistics", "first batch after a flip"
PLAN = PlannerOptions(view_selection=False)
"""Sub-results are fixed, so that all plans are comparable."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: what is measured, its median and its greatest value over the cases, and the aim."""

    figure: str
    median: float
    most: float
    cases: int
    aim: str

    @classmethod
    def of(cls, figure: str, values: Iterable[float], aim: str) -> Figure:
        """The figure of some values."""
        found = np.array([*values])
        return cls(figure, float(np.median(found)), float(found.max()), len(found), aim)


Part = Callable[[bool], tuple[list[Figure], dict[str, Any]]]
"""Measures figures, small if ``quick``; also returns what they are made of."""


def orders(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Random acyclic queries in random orders."""
    found = order_spread.study(quick)
    aims = {"worst": "≤ 1.6×", "chosen": "≤ 1.1× median, ≤ 1.5× max"}
    return [
        Figure.of(f"{of} over the best order, {what}", (one[f"{of}, {what}"] for one in found["spreads"]), aims[of])
        for of in aims
        for what in ("rows", "seconds")
    ], found


def drifting(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Runs while the data change, with true and with false statistics, over the best plans of each phase in hindsight.

    The first batch of each phase but the first is also compared by itself, with the best plans of this batch.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for workload, query, work in drifting_queries(quick):
        name = f"{query.name} under {workload}"
        runs = {TRUE: [query.run(TRUE, PLAN)]}
        for kind, falsify in FALSIFIED.items():
            runs[kind] = [run_with_false(query, f"{kind} {seed}", falsify, seed, PLAN) for seed in range(2 if quick else 10)]
        every = [run for some in runs.values() for run in some]
        measured = measure(query, _plans_of_all(every))
        check_same([*every, *measured.runs])
        least = sum(measured.given(measured.hindsight(phase), phase) for phase in work.slices())
        firsts = [slice(phase.start, phase.start + 1) for phase in work.slices()[1:]]
        found[name] = {kind: [rows_produced(run.records) / max(1, least) for run in some] for kind, some in runs.items()}
        found[name][FLIP] = [
            rows_produced(runs[TRUE][0].records[batch]) / max(1, measured.given(measured.hindsight(batch), batch))
            for batch in firsts
        ]
    aims = {FLIP: "≤ 1.5×", TRUE: "", **dict.fromkeys(FALSIFIED, "≤ 1.3×")}
    return [
        Figure.of(f"{kind} over hindsight, rows", (ratio for one in found.values() for ratio in one[kind]), aim)
        for kind, aim in aims.items()
    ], found


PARTS: tuple[Part, ...] = (orders, drifting)


def _plans_of_all(runs: Iterable[Ran]) -> dict[str, list[str]]:
    """The distinct plans of each delta source in some runs."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for source, plans in plans_of(run).items():
            found[source] = [*dict.fromkeys([*found.get(source, []), *plans])]
    return found


def study(quick: bool) -> dict[str, Any]:
    """All parts."""
    figures: list[Figure] = []
    parts: dict[str, Any] = {}
    for part in PARTS:
        found, parts[part.__name__] = part(quick)
        figures += found
    return {"figures": [{name: getattr(one, name) for name in Figure.__slots__} for one in figures], "parts": parts}


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    rows = table("figure", *numbers("cases", "median", "most"), "aim", title="Robustness of plans")
    for one in found["figures"]:
        rows.add_row(one["figure"], f"{one['cases']:,}", f"{one['median']:.2f}×", f"{one['most']:.2f}×", one["aim"])
    console().print(rows)
