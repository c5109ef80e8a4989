"""``cqels-opt bench``: runs scenarios and studies, prints tables, and writes JSON and a page.

A *scenario* is declared in a TOML file and compares contenders (:mod:`cqels_opt.bench.comparing`). A *study* has its own
measurements. Where contenders answer the same queries, their answers are compared before any times are reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from cqels_opt.bench import evaluation, tables
from cqels_opt.bench.circumstances import circumstances, machine
from cqels_opt.bench.comparing import compare
from cqels_opt.bench.contenders import available
from cqels_opt.bench.declared import read, shipped
from cqels_opt.bench.html import page
from cqels_opt.bench.kept import StoredReports, as_json
from cqels_opt.cli.input_files import check_outputs, check_page
from cqels_opt.cli.options import BenchOptions
from cqels_opt.errors import InputError
from cqels_opt.query.mistakes import nearest

EVALUATION, ADAPTIVE_JOIN, ARENA = "evaluation", "adaptive-join", "arena"
STUDIES = {
    ARENA: "The engine next to rivals on public workloads: CPU time, memory, compared answers",
    "q-errors": "Estimated against observed rows, by kind of estimate",
    "drift": "Rows under drift, compared with the best plans of each phase in hindsight",
    "skew": "Rows where parts of one delta need different plans",
    "cyclic": "Triangles, diamonds and cliques over a stream of edges, next to DuckDB",
    "sub-results": "A sub-result that pays off while a query runs",
    "concurrent": "Many queries at once: 10 to 5,000 instances of Q1' to Q4', and 100 different ones",
    "incremental": "Operators above the joins while the window grows",
    "soak": "Thousands of small batches: memory, containers and files over time",
    "long-window": "A window of an hour as it grows: time, memory, disk, and restarts after a kill",
    "stores": "Static stores as they grow: load rate, size, time to open, probes",
    ADAPTIVE_JOIN: "Jobs over DataFrames with AdaptiveJoin, next to the same jobs in plain Spark",
    "physical-joins": "Physical joins, forced and chosen",
    "calibration": "Estimated next to measured seconds, with default and with measured constants",
    "paced": "Latencies and batches while elements come in real time, next to a tuned Spark job",
    "throughput": "Elements a second of large batches, on one core and on two",
    "recovery": "Seconds from a restart after kill -9 to the first batch",
    "tunnel": "Filters on probabilities early, late and by cost: the tunnel of Keskisärkkä et al. 2021",
    "w3c": "The W3C's SPARQL query tests, static and as a stream: what passes, and why the others do not",
    "csrbench": "CSRBench in three languages at every t0, next to what real engines answered",
    "yabench": "YABench's queries over the windows that its oracle defines, by arrival and by closing",
    "rdf-star": "RDF-star next to reification: bytes, milliseconds, and the e-health query",
    "start-up": "From a command to its first answer, next to a plain Spark job",
    "profile": "Where the milliseconds of a batch go",
    "join-orders": "Join orders next to DuckDB's",
    "robustness": "How far plans fall: random orders, changes of the data, false statistics, cycles, long windows, upper bounds",
}
"""Titles of the studies. Each is a module of this folder: its ``study(quick)`` measures (small if ``quick``), its ``show`` displays."""
ON_SPARK = (*evaluation.ON_SPARK, ADAPTIVE_JOIN, "physical-joins", "profile", "recovery", "soak", "stores", "throughput")
"""The studies that run on Spark."""


def check(options: BenchOptions) -> None:
    """InputError for names and options that do not fit, before anything runs."""
    names = options.scenarios or (EVALUATION,)
    if options.html is not None:
        check_page(options.html)
        check_outputs([("--html", options.html)], [options.json])
    if options.page and len({EVALUATION, ARENA} & {*names}) != 1:
        raise InputError(f"--page: {EVALUATION} or {ARENA} alone has a page; others have --html")
    for name in names:
        _check(name)
        if name in ON_SPARK and not options.spark:
            raise InputError(f"--no-spark: the study {name} runs on Spark")
    _check_options(names, options)


def bench(options: BenchOptions) -> None:
    """Runs the named scenarios and studies; prints and stores (``--keep``) their reports, writes ``--json`` and ``--html``."""
    if options.list:
        scenarios = {name: read(path).title for name, path in shipped().items()}
        for name, title in {EVALUATION: evaluation.TITLE, **scenarios, **STUDIES}.items():
            print(f"{name}: {title}")
        print("\ncontenders of scenarios:")
        for contender in available().values():
            print(f"{contender.name}: {contender.about}")
        return
    check(options)
    names = options.scenarios or (EVALUATION,)
    kept = _stored(options)
    reports = [_reported(name, options, kept) for name in names]
    if options.json:
        text = json.dumps(reports[0] if len(reports) == 1 else reports, indent=1, allow_nan=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.html:
        options.html.write_text(page(reports), encoding="utf-8")


def _stored(options: BenchOptions) -> StoredReports:
    """The folder of ``--keep``, with everything but files that a report depends on."""
    if options.keep is None:
        return StoredReports()
    of = {
        "quick": options.quick,
        "spark": options.spark,
        "contenders": [str(one.resolve() if isinstance(one, Path) else one) for one in options.contenders],
        "jobs": list(options.jobs),
        "arena": [options.full, *options.workloads, *options.rivals],
        "data": str(options.data.resolve()) if options.data is not None else None,
        **{variable: os.environ.get(variable) for variable in ("CQELS_OPT_DATA", "CQELS_OPT_RIVALS")},
        "machine": {name: value for name, value in machine().items() if name != "load"},
    }
    return StoredReports(options.keep, of, Console(stderr=True).print)


def _files(name: str, options: BenchOptions) -> list[Path]:
    """The files that the report of a scenario or study depends on, except those of the package."""
    given = [one for one in options.contenders if isinstance(one, Path)]
    if name in STUDIES:
        return given
    path = shipped().get(name, Path(name))
    return [path, *read(path, options.quick).files, *given]


def _check(name: str) -> None:
    """InputError for an unknown name."""
    known = (EVALUATION, *STUDIES, *shipped())
    if name.endswith(".toml"):
        read(Path(name))
    elif name not in known:
        raise InputError(f"there is no scenario {name!r}{nearest(name, known)}; there are {', '.join(known)}, or a file my.toml")


def _check_options(names: Sequence[str], options: BenchOptions) -> None:
    """InputError for options that none of the scenarios and studies has, for an unknown job, and for two sizes."""
    if options.quick and options.full:
        raise InputError("--quick and --full: give one of them")
    if options.contenders and all(name in STUDIES and name != ARENA for name in names):
        raise InputError(f"--contender: only scenarios, {EVALUATION} and {ARENA} have contenders")
    for option, given in (("--job", options.jobs), ("--data", options.data)):
        if given and ADAPTIVE_JOIN not in names:
            raise InputError(f"{option}: only {ADAPTIVE_JOIN} has jobs")
    for option, some in (("--full", options.full), ("--workload", options.workloads), ("--rival", options.rivals)):
        if some and ARENA not in names:
            raise InputError(f"{option}: only {ARENA} has it")
    if options.jobs:
        from cqels_opt.bench.adaptive_join import check_jobs

        check_jobs(options.jobs)


def _reported(name: str, options: BenchOptions, kept: StoredReports) -> dict[str, Any]:
    """Runs one scenario or study, prints its table, and returns its report."""

    def section(name: str) -> dict[str, Any]:
        return kept.once(name, lambda: as_json(_run(name, options)), _files(name, options))

    if name == EVALUATION:
        return evaluation.evaluate(section, options.quick, options.spark, options.page)
    return section(name)


def _run(name: str, options: BenchOptions) -> dict[str, Any]:
    if name in STUDIES:
        return _studied(name, options)
    report = compare(read(shipped().get(name, Path(name)), options.quick), options.contenders, options.quick, options.spark)
    tables.show(report)
    return report


def _studied(name: str, options: BenchOptions) -> dict[str, Any]:
    """Runs a study and adds the environment of its measurements."""
    study = import_module(f"cqels_opt.bench.{name.replace('-', '_')}")
    quick = options.quick
    more: dict[str, Any] = {}
    if name == ADAPTIVE_JOIN:
        more = {"jobs": options.jobs, "data": options.data}
    elif name == ARENA:
        quick = options.quick or not options.full
        more = {"workloads": options.workloads, "chosen": options.rivals, "more": options.contenders, "spark": options.spark}
    found = study.study(quick, **more)
    study.show(found)
    report = {**circumstances(), "scenario": name, "title": STUDIES[name], "parameters": {"quick": quick}, **found}
    if options.page and name == ARENA:
        from cqels_opt.bench.arena.page import markdown

        options.page.write_text(markdown(report), encoding="utf-8")
    return report
