"""``cqels-opt bench adaptive-join``: jobs over DataFrames with ``AdaptiveJoin``, compared with the jobs that Spark users write.

Every job has its own process and JVM, in which its contenders alternate (:mod:`cqels_opt.bench.dataframe_jobs.turns`). A contender
that fails is shown with the reason; contenders with different answers end the benchmark before it shows any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import CpuSeconds
from cqels_opt.bench.dataframe_jobs import drift, flights, memory, nexmark, self_join, star, two_streams
from cqels_opt.bench.dataframe_jobs.drift import PHASES, QUICK, Size, make, phase
from cqels_opt.bench.dataframe_jobs.job import Job, files_of, uncounted
from cqels_opt.bench.dataframe_jobs.turns import Measured, measure
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.errors import InputError
from cqels_opt.query.mistakes import nearest

__all__ = ["JOBS", "PHASES", "QUICK", "Size", "check_jobs", "make", "phase", "show", "study"]

JOBS: Mapping[str, Job] = {
    job.name: job for job in (*(one.JOB for one in (star, flights, self_join, two_streams, drift, memory)), *nexmark.JOBS)
}
RATIOS = ("first", "median", "total", "cpu")


def check_jobs(names: Sequence[str]) -> None:
    """InputError for a name that is not that of a job."""
    for name in names:
        if name not in JOBS:
            raise InputError(f"--job: there is no job {name!r}{nearest(name, JOBS)}; there are {', '.join(JOBS)}")


def study(quick: bool, jobs: Sequence[str] = (), data: Path | None = None) -> dict[str, Any]:
    """The figures of the named jobs, or of all; ``data`` is the folder of flights and airports."""
    check_jobs(jobs)
    if data is not None:
        flights.read(data)
    return {"jobs": [_of_job(JOBS[name], quick, data) for name in jobs or JOBS]}


def _of_job(job: Job, quick: bool, data: Path | None) -> dict[str, Any]:
    with scratch_folder() as folder:
        Console(stderr=True, highlight=False).print(f"{job.name}: {job.title}")
        about = job.make(folder / "data", quick, data)
        if not quick:
            job.make(folder / "warm-up", True, None)
            for file in files_of(folder / "warm-up" / job.stream)[1:]:
                file.unlink()
        measured = measure(job, quick, folder)
    return figures(job, about, quick, measured)


# ------------------------------------------------------------------ figures
def figures(job: Job, about: str, quick: bool, measured: Mapping[str, Measured]) -> dict[str, Any]:
    """The measurements of a job as its part of the report."""
    results = [_result(job, quick, name, one) for name, one in measured.items()]
    for result in results:
        result["verified"] = result["failure"] is None and sum(other["failure"] is None for other in results) > 1
    base = next(result for result in results if result["contender"] == job.base)
    for result in results:
        same = result["failure"] is None and base["failure"] is None
        result["over"] = {ratio: _value(result, ratio) / _value(base, ratio) for ratio in RATIOS} if same else None
    digests = max((one.digests for one in measured.values()), key=len)
    return {
        "job": job.name,
        "title": job.title,
        "data": about,
        "base": job.base,
        "warm_up": uncounted(job, quick),
        "batches": len(digests),
        "phases": list(job.phases),
        "answers": [rows for rows, _ in digests],
        "results": results,
    }


def _result(job: Job, quick: bool, name: str, measured: Measured) -> dict[str, Any]:
    result: dict[str, Any] = {
        "contender": name,
        "failure": measured.failure,
        "milliseconds": None,
        "cpu_seconds": None,
        "batch_milliseconds": measured.milliseconds,
        "batch_cpu_seconds": [sum(cpu) for cpu in measured.cpu],
        "plans": measured.plans,
        "switches": measured.switches,
    }
    if measured.failure is not None:
        return result
    skip = uncounted(job, quick)
    counted = measured.milliseconds[skip:]
    result["milliseconds"] = {
        "first": measured.milliseconds[0],
        "median": median(counted),
        "total": sum(counted),
        "least": min(counted),
        "most": max(counted),
        "batches": len(counted),
    }
    used = CpuSeconds(*(sum(parts) for parts in zip(*measured.cpu[skip:])))
    result["cpu_seconds"] = {"first": sum(measured.cpu[0]), "total": sum(used), **used._asdict()}
    if (group := job.phase) is not None:
        numbered = [*enumerate(measured.milliseconds)][skip:]
        result["phases"] = [median(ms for n, ms in numbered if group(n, quick) == k) for k in range(len(job.phases))]
    return result


def _value(result: Mapping[str, Any], ratio: str) -> float:
    return float(result["cpu_seconds"]["total"] if ratio == "cpu" else result["milliseconds"][ratio])


# ------------------------------------------------------------------ tables
def show(found: Mapping[str, Any]) -> None:
    """A table per job."""
    for job in found["jobs"]:
        _show(job)


def _show(job: Mapping[str, Any]) -> None:
    counted = job["batches"] - job["warm_up"]
    title = (
        f"{job['job']}: {job['title']}\n{job['data']}\nmilliseconds of the first micro-batch, median and total of {counted}, "
        f"and their CPU seconds (and relative to {job['base']})"
    )
    shown = table(
        "contender", *numbers("first", "median", *job["phases"], "total", "CPU s", "of driver, JVM, workers"), title=title
    )
    for row in job["results"]:
        if row["failure"] is not None:
            shown.add_row(row["contender"], "failed")
            continue
        ms, cpu, over = row["milliseconds"], row["cpu_seconds"], row["over"]

        def cell(name: str, value: float, form: str = ",.0f") -> str:
            return f"{value:{form}}" if over is None else f"{value:{form}} ({over[name]:.2f}×)"  # noqa: B023 - used at once

        shown.add_row(
            row["contender"],
            cell("first", ms["first"]),
            cell("median", ms["median"]),
            *(f"{value:,.0f}" for value in row.get("phases", ())),
            cell("total", ms["total"]),
            cell("cpu", cpu["total"], ",.1f"),
            ", ".join(f"{cpu[part]:,.1f}" for part in CpuSeconds._fields),
        )
    screen = console()
    screen.print(shown)
    for row in job["results"]:
        if row["failure"] is not None:
            screen.print(f"{row['contender']} failed: {row['failure']}", markup=False, highlight=False, soft_wrap=True)
        elif row["switches"] is not None:
            screen.print(f"{row['contender']} changed its plan {row['switches']} times")
    same = (
        "all contenders that finished gave the same answers" if any(row["verified"] for row in job["results"]) else "not compared"
    )
    screen.print(f"{same}, {sum(job['answers']):,} rows")
