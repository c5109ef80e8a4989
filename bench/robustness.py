"""How far plans fall in the worst case: random orders, changes of the data, false statistics, cyclic patterns, long windows, upper bounds.

Each part measures one row or several of the table. All answers are compared with the independent evaluation or with those of other plans,
which give the same answers, before a figure is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cqels_opt.bench import bound_quality, cyclic, order_spread, window_size
from cqels_opt.bench.drift import drifting_queries, measure, plans_of
from cqels_opt.bench.false_statistics import FALSIFIED, run_with_false
from cqels_opt.bench.local import Ran, check_same, rows_produced
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.tables import ROBUSTNESS_HEADS, robustness_rows
from cqels_opt.planner.planner_options import PlannerOptions

TRUE, FLIP = "true statistics", "first batch after a flip"
PLAN = PlannerOptions(view_selection=False)
"""Sub-results are fixed, so that all plans are comparable."""
FOUR_JOINS = 5
"""The relations of four joins."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: what is measured, its median, least and greatest value over the cases, the aim, and the unit."""

    figure: str
    median: float
    least: float
    most: float
    cases: int
    aim: str
    unit: str = "×"

    @classmethod
    def of(cls, figure: str, values: Iterable[float], aim: str) -> Figure:
        """The figure of some ratios."""
        found = np.array([*values])
        return cls(figure, float(np.median(found)), float(found.min()), float(found.max()), len(found), aim)


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


def cycles(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Cyclic patterns over a graph with a hub: the best binary plan, and DuckDB (at least, where it stopped), over multiway joins."""
    found = cyclic.study(quick)
    runs = [one["runs"] for one in found["patterns"]]
    rows = [run["binary"]["rows at the hub"] / max(1, run["multiway"]["rows at the hub"]) for run in runs]
    figures = [Figure.of("cyclic patterns, binary plan over multiway joins, rows at the hub", rows, "≥ 100×")]
    for name, of in (("binary plan", "binary"), (cyclic.DUCKDB, cyclic.DUCKDB)):
        ratios = [run[of]["CPU s"] / run["multiway"]["CPU s"] for run in runs]
        figures.append(Figure.of(f"cyclic patterns, {name} over multiway joins, CPU seconds", ratios, "≥ 5×"))
    return figures, found


def windows(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """The cost of a row in larger windows over that in windows of 10,000 rows."""
    found = {
        name: [window_size.measure(name, size) for size in study.sizes[: 2 if quick else None]]
        for name, study in window_size.STUDIES.items()
    }
    figures = []
    for what, key in (("rows of joins", "rows of joins a row"), ("CPU", "median cpu us a row")):
        for name, runs in found.items():
            first, *others = (run[key] for run in runs)
            aim = "" if name == "hub" else "≤ 1.15×"
            ratios, most = [x / first for x in others], runs[-1]["rows in a window"]
            figures.append(Figure.of(f"a row in windows of up to {most:,} rows, {name}, {what}", ratios, aim))
    return figures, {"windows": found}


def upper_bounds(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Upper bounds over true sizes, and the operators that exceed theirs."""
    every = [one for some in bound_quality.study(quick).values() for one in some]
    exceeded = bound_quality.underestimates(every)
    by_size = bound_quality.ratios(every)
    within = [ratio for n, ratios in by_size.items() if 2 <= n <= FOUR_JOINS for ratio in ratios]
    return [
        Figure("operators with more rows than their upper bound", exceeded, exceeded, exceeded, len(every), "0", ""),
        Figure.of("upper bound over true size, up to four joins", within, "≤ 5× median"),
        *(Figure.of(f"upper bound over true size, {n} relations", by_size[n], "") for n in by_size),
    ], {"operators": len(every), "exceeded": exceeded}


PARTS: tuple[Part, ...] = (orders, drifting, cycles, windows, upper_bounds)


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
    return {"figures": [asdict(one) for one in figures], "parts": parts}


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    rows = table(*ROBUSTNESS_HEADS[:2], *numbers(*ROBUSTNESS_HEADS[2:]), title="Robustness of plans")
    for row in robustness_rows(found):
        rows.add_row(*row)
    console().print(rows)
