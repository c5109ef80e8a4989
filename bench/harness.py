"""``cqels-opt bench``: runs scenarios and studies, prints tables, and writes JSON and a page.

A *scenario* is declared in a TOML file and compares contenders (:mod:`cqels_opt.bench.comparing`). A *study* has its own
measurements. In both, all answers are compared before any times are reported.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from cqels_opt.bench import (
    adaptive_join,
    calibration,
    concurrent,
    csrbench,
    drift,
    evaluation,
    incremental,
    long_window,
    paced,
    physical_joins,
    profile,
    q_errors,
    recovery,
    skew,
    soak,
    star,
    stores,
    sub_results,
    tables,
    throughput,
    tunnel,
    w3c,
)
from cqels_opt.bench.circumstances import circumstances
from cqels_opt.bench.comparing import compare
from cqels_opt.bench.contenders import available
from cqels_opt.bench.declared import read, shipped
from cqels_opt.bench.html import page
from cqels_opt.bench.kept import StoredReports
from cqels_opt.bench.study import Study
from cqels_opt.cli.options import BenchOptions
from cqels_opt.errors import InputError
from cqels_opt.query.mistakes import nearest

JOIN_ORDERS = "join-orders"
EVALUATION = "evaluation"


def _calibrated(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="cqels-opt-bench-") as scratch:
        return calibration.study(Path(scratch), quick)


STUDIES = {
    "q-errors": Study("Estimated against observed rows, by kind of estimate", q_errors.study, q_errors.show),
    "drift": Study("Rows under drift, compared with the best plans of each phase in hindsight", drift.study, drift.show),
    "skew": Study("Rows where one delta wants several plans", skew.study, skew.show),
    "sub-results": Study("A static join that pays for being made while a query runs", sub_results.study, sub_results.show),
    "concurrent": Study(
        "Many queries at once: 10 to 5,000 instances of Q1' to Q4', and 100 different ones",
        concurrent.study,
        concurrent.show,
        spark=True,
    ),
    "incremental": Study("Operators above the joins while the window grows", incremental.study, incremental.show),
    "soak": Study("Thousands of small batches: memory, containers and files over time", soak.study, soak.show),
    "long-window": Study(
        "A window of an hour as it grows: time, memory, disk, and restarts after a kill", long_window.study, long_window.show
    ),
    "stores": Study("Static stores as they grow: load rate, size, time to open, probes", stores.study, stores.show),
    "adaptive-join": Study(
        "A Spark job that is not SPARQL under drift, next to adaptive execution and the CBO",
        adaptive_join.study,
        adaptive_join.show,
    ),
    "physical-joins": Study("Physical joins, forced and chosen", physical_joins.study, physical_joins.show),
    "calibration": Study(
        "Estimated next to measured seconds, with default and with measured constants", _calibrated, calibration.show
    ),
    "paced": Study("Latencies and batches while elements come in real time, next to a tuned Spark job", paced.study, paced.show),
    "throughput": Study("Elements a second of large batches, on one core and on two", throughput.study, throughput.show),
    "recovery": Study("Seconds from a restart after kill -9 to the first batch", recovery.study, recovery.show),
    "tunnel": Study(
        "Filters on probabilities early, late and by cost: the tunnel of Keskisärkkä et al. 2021", tunnel.study, tunnel.show
    ),
    "w3c": Study(
        "The W3C's SPARQL query tests, static and as a stream: what passes, and why the others do not", w3c.study, w3c.show
    ),
    "csrbench": Study(
        "CSRBench in three languages at every t0, next to what real engines answered", csrbench.study, csrbench.show
    ),
    "rdf-star": Study("RDF-star next to reification: bytes, milliseconds, and the e-health query", star.study, star.show),
    "profile": Study("Where the milliseconds of a batch go", profile.study, profile.show),
}


def bench(options: BenchOptions) -> None:
    """Runs the named scenarios and studies; prints and stores (``--keep``) their reports, writes ``--json`` and ``--html``."""
    if options.list:
        for name, title in _titles().items():
            print(f"{name}: {title}")
        print("\ncontenders of scenarios:")
        for contender in available().values():
            print(f"{contender.name}: {contender.about}")
        return
    names = options.scenarios or (EVALUATION,)
    if options.page and EVALUATION not in names:
        raise InputError(f"--page: only {EVALUATION} has a page; others have --html")
    for name in names:
        _check(name)
    progress = Console(stderr=True)
    of = {
        "quick": options.quick,
        "spark": options.spark,
        "contenders": [str(one.resolve() if isinstance(one, Path) else one) for one in options.contenders],
    }
    kept = StoredReports(options.keep, of, progress.print)
    reports = [_reported(name, options, kept) for name in names]
    if options.json:
        text = json.dumps(reports[0] if len(reports) == 1 else reports, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.html:
        options.html.write_text(page(reports), encoding="utf-8")


def _titles() -> dict[str, str]:
    """The titles of all scenarios and studies, by name."""
    return {
        EVALUATION: evaluation.TITLE,
        **{name: read(path).title for name, path in shipped().items()},
        **{name: study.title for name, study in STUDIES.items()},
        JOIN_ORDERS: "Join orders next to DuckDB's",
    }


def _check(name: str) -> None:
    """InputError for an unknown name, before anything runs."""
    known = (EVALUATION, JOIN_ORDERS, *STUDIES, *shipped())
    if name in known:
        return
    if name.endswith(".toml"):
        read(Path(name))
        return
    raise InputError(f"there is no scenario {name!r}{nearest(name, known)}; there are {', '.join(known)}, or a file my.toml")


def _reported(name: str, options: BenchOptions, kept: StoredReports) -> dict[str, Any]:
    """Runs one scenario or study, prints its table, and returns its report."""

    def section(name: str) -> dict[str, Any]:
        return kept.once(name, lambda: _run(name, options))

    if name == EVALUATION:
        return evaluation.evaluate(section, options.quick, options.spark, options.page)
    return section(name)


def _run(name: str, options: BenchOptions) -> dict[str, Any]:
    if name == JOIN_ORDERS:
        return _join_orders(options.quick)
    if name in STUDIES:
        return studied(name, STUDIES[name], options)
    report = compare(read(shipped().get(name, Path(name)), options.quick), options.contenders, options.quick, options.spark)
    tables.show(report)
    return report


def studied(name: str, study: Study, options: BenchOptions) -> dict[str, Any]:
    """Runs a study and adds the environment of its measurements."""
    quick = options.quick or (study.spark and not options.spark)
    found = study.study(quick)
    study.show(found)
    return {**circumstances(), "scenario": name, "title": study.title, "parameters": {"quick": quick}, **found}


def _join_orders(quick: bool) -> dict[str, Any]:
    try:
        from cqels_opt.bench.join_orders import show, study
    except ImportError as error:
        raise InputError(f"{JOIN_ORDERS} needs DuckDB: pip install 'cqels-opt[bench]'") from error
    found = study(50 if quick else 250)
    show(found)
    return {
        **circumstances(),
        "scenario": JOIN_ORDERS,
        "title": "Join orders next to DuckDB's",
        "parameters": {"quick": quick},
        **found,
    }
