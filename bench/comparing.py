"""Runs a declared scenario (its data, tasks and contenders) and returns a JSON report."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cqels_opt.bench import latency
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import circumstances
from cqels_opt.bench.contenders import Contender, Given, Task, available, find
from cqels_opt.bench.declared import Case, Scenario
from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.generators import generate
from cqels_opt.bench.local import load
from cqels_opt.bench.measure import Ran, by_itself, check, in_turns, spans
from cqels_opt.errors import InputError
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

__all__ = ["compare"]


@dataclass(frozen=True, slots=True)
class Passes:
    """All passes of one contender over one task."""

    case: Case
    query: str
    task: Task
    runs: tuple[Ran, ...]


def compare(scenario: Scenario, more: Sequence[Given] = (), quick: bool = False, spark: bool = True) -> dict[str, Any]:
    """Runs the scenario and returns the report. RunError, and no report, if contenders disagree.

    Without ``spark``, contenders that need it are omitted.
    """
    named = find(scenario.contenders, more)
    known = {*available(), *(contender.name for contender in named)}
    if unknown := sorted(scenario.options.keys() - known):
        raise InputError(f"{scenario.name}: options.{unknown[0]}: there is no contender of this name{nearest(unknown[0], known)}")
    contenders = [contender for contender in named if spark or not contender.spark]
    if not any(contender.answers for contender in contenders):
        raise InputError("a scenario needs a contender that answers")
    with scratch_folder() as scratch, _progress(scenario, contenders) as step:
        worlds = Worlds(scenario, scratch)
        descriptions, found = {}, list[Passes]()
        for case in scenario.cases():
            step(f"data {case_text(case)}".strip())
            data, tasks = worlds.tasks(case)
            descriptions[case_text(case)] = data.description
            for name, task in tasks.items():
                if (batches := len(task.replay.chunks)) <= (warm := scenario.stream.warm_up):
                    raise InputError(
                        f"{scenario.name}: stream.warm_up: {warm} of {batches} batches do not count, so that none is left"
                    )
                runs = []
                for turn in range(scenario.repetitions):
                    step(f"{name} {case_text(case)}, all that take turns")
                    own = [contender for contender in contenders if not contender.apart]
                    runs.append(in_turns(own, task, scratch / "runs", scenario.limit, turn))
                found += [Passes(case, name, task, same) for same in zip(*runs)]
        _check(found)
        for contender in (contender for contender in contenders if contender.apart):
            step(f"{contender.name}, in a process of its own")
            todo = [(case, name, worlds.tasks(case)[1][name]) for name in scenario.queries for case in scenario.cases()]
            runs_apart = by_itself(contender, more, [task for *_, task in todo], scratch / "runs")
            found += [Passes(case, name, task, (run,)) for (case, name, task), run in zip(todo, runs_apart)]
            _check(found)  # not only at the end, because the next runs may take long
        _check(found, ended=True)
        return _report(scenario, contenders, found, descriptions, quick)


class Worlds:
    """The data and tasks of each case, created once; equal static data are loaded once."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        self._made: dict[str, tuple[Data, dict[str, Task]]] = {}
        self._stores: dict[str, Path] = {}

    def tasks(self, case: Case) -> tuple[Data, dict[str, Task]]:
        """The data of a case, and its tasks by query."""
        key = case_text(case)
        if key not in self._made:
            place = self.folder / f"case-{len(self._made)}"
            stream = self.scenario.stream
            request = Request(self.scenario.seed, case.rate, stream.seconds, stream.window, self.scenario.folder)
            try:
                data = generate(place / "data", request, {**self.scenario.data, **case.varied})
            except InputError as error:
                raise InputError(f"{self.scenario.name}: {error}") from error
            shared, batch = self._static(data), stream.batches(case.rate)
            self._made[key] = (
                data,
                {name: self._task(name, path, data, shared, place, batch) for name, path in self.scenario.queries.items()},
            )
        return self._made[key]

    def _static(self, data: Data) -> Path:
        """The folder for artifacts of the static data, including their store."""
        digest = hashlib.sha256()
        for name, path in [*(("", path) for path in data.static), *sorted(data.graphs.items())]:
            digest.update(name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        key = digest.hexdigest()[:16]
        if key not in self._stores:
            folder = self.folder / f"static-{key}"
            folder.mkdir()
            sources = [*map(StaticSource, data.static), *(StaticSource(path, graph) for graph, path in data.graphs.items())]
            load(folder / "store", sources)
            self._stores[key] = folder
        return self._stores[key]

    def _task(self, name: str, path: Path, data: Data, shared: Path, place: Path, batch: BatchSize) -> Task:
        text = path.read_text(encoding="utf-8")
        query = parse(text, file=str(path))
        sources = []
        for stream in dict.fromkeys(window.stream for window in query.windows):
            if stream.strip("<>") not in data.streams:
                raise InputError(f"{path}: reads the stream {stream}, and the data have {', '.join(data.streams)}")
            sources.append(ReplaySource(stream, (data.streams[stream.strip("<>")],)))
        replay = cut(sources, place / "replay" / name, batch)
        streams = {iri: data.streams[iri] for iri in (source.stream.strip("<>") for source in sources)}
        return Task(
            name,
            text,
            streams,
            data.static,
            data.graphs,
            shared / "store",
            replay,
            batch,
            shared,
            self.scenario.sql,
            {f"{contender}.{key}": v for contender, table in self.scenario.options.items() for key, v in table.items()},
            self.scenario.limit,
        )


def case_text(case: Case) -> str:
    """A case as text."""
    parts = [f"at {case.rate:,g}/s"] if case.rate is not None else []
    return ", ".join([*parts, *(f"{key} {value}" for key, value in case.varied.items())])


@contextmanager
def _progress(scenario: Scenario, contenders: Sequence[Contender]) -> Iterator[Any]:
    """Reports progress, only to a terminal. Yields a function to call at each step."""
    cases, turns = len(list(scenario.cases())), scenario.repetitions * len(scenario.queries)
    apart = sum(contender.apart for contender in contenders)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(scenario.name, total=cases * (1 + turns) + apart)

        def step(what: str) -> None:
            progress.update(bar, description=f"{scenario.name}: {what}")
            progress.advance(bar)

        yield step


def _check(found: Sequence[Passes], ended: bool = False) -> None:
    """RunError if contenders disagree about a task or, at the end, if none has finished it."""
    for (query, case), passes in _by_task(found).items():
        runs = [run for one in passes for run in one.runs]
        if ended or any(run.answers and run.whole for run in runs):
            check(f"{query} {case}".strip(), runs)


def _by_task(found: Sequence[Passes]) -> dict[tuple[str, str], list[Passes]]:
    by_task: dict[tuple[str, str], list[Passes]] = {}
    for one in found:
        by_task.setdefault((one.query, case_text(one.case)), []).append(one)
    return by_task


# ------------------------------------------------------------------ results
def _report(
    scenario: Scenario, contenders: Sequence[Contender], found: Sequence[Passes], descriptions: Mapping[str, str], quick: bool
) -> dict[str, Any]:
    results, failed = [], []
    for passes in _by_task(found).values():
        compared = sum(any(map(_compared, one.runs)) for one in passes) > 1
        for one in passes:
            result = _result(one, scenario, quick, compared)
            why = next((run.why for run in one.runs if run.why is not None), None)
            if result is not None:
                results.append(result)
            if why is not None:
                name = one.runs[0].contender
                failed.append({"query": one.query, "contender": name, "parameters": one.case.parameters, "why": why})
    return {
        **circumstances(),
        "seed": scenario.seed,
        "scenario": scenario.name,
        "title": scenario.title,
        "about": scenario.about,
        "parameters": {"quick": quick, "repetitions": scenario.repetitions, "warm_up": scenario.stream.warm_up},
        "data": {"generator": scenario.data["generator"], **descriptions},
        "contenders": {contender.name: contender.about for contender in contenders},
        "results": results,
        "failed": failed,
    }


def _compared(run: Ran) -> bool:
    """Whether a run has answers that are compared with those of others: no answers are equal to no answers."""
    return run.answers and (run.whole or run.upto is not None) and run.bag.until(run.upto) > 0


def _result(one: Passes, scenario: Scenario, quick: bool, compared: bool) -> dict[str, Any] | None:
    """The measurements of a contender on a task; None if no batch counts. ``compared``: others have given answers as well."""
    warm = scenario.stream.warm_up
    counted = [ms for run in one.runs for ms in run.milliseconds[warm:]]
    if not counted:
        return None
    times = spans(one.task)
    sizes = [len(t) for run in one.runs for t in times[warm : len(run.milliseconds)]]
    run = one.runs[0]
    phases = [phase for run in one.runs for phase in run.phases[warm:] if phase]
    typical = median(counted)
    found: dict[str, Any] = {
        "contender": run.contender,
        "parameters": {"query": one.query, **one.case.parameters, "quick": quick},
        "milliseconds": spread(counted),
        "elements_per_second": 1000 * median(sizes) / typical if typical else None,
        "answers": run.bag.total if run.answers else None,
        "verified": compared and _compared(run),
        "prepared_seconds": min(run.prepared for run in one.runs),
    }
    if phases:
        found["phases"] = {name: median(p.get(name, 0.0) for p in phases) for name in phases[0]}
    if phases and "optimize" in phases[0]:  # of all batches together: planning is rare, and takes many times its median then
        found["optimizer_share"] = sum(p["optimize"] for p in phases) / sum(sum(p.values()) for p in phases)
    if one.case.rate is not None and all(run.whole for run in one.runs):
        late = [ms for run in one.runs for ms in latency.open_loop(run.milliseconds[warm:], times[warm:])]
        found["latency"] = latency.as_json(np.concatenate(late))
        found["keeps_up"] = sum(counted) <= _duration(times, warm) * len(one.runs)
    return found


def _duration(times: Sequence[Any], warm: int) -> float:
    """Milliseconds of stream time that the counted batches cover: from the end of the batch before them, or from their first element."""
    before, counted = (list(filter(len, some)) for some in (times[:warm], times[warm:]))
    if len(counted) + bool(before) < 2 or not counted:
        return float("inf")
    return float(counted[-1].max() - (before[-1].max() if before else counted[0].min()))


def spread(values: Sequence[float]) -> dict[str, Any]:
    """The median and the spread of values, with their histogram."""
    ordered = sorted(values)
    quarters = quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [ordered[0]] * 3
    at95 = ordered[ceil(0.95 * len(ordered)) - 1]
    return {
        "median": quarters[1],
        "mean": fmean(ordered),
        "p25": quarters[0],
        "p75": quarters[2],
        "p95": at95,
        "least": ordered[0],
        "most": ordered[-1],
        "batches": len(ordered),
        "hdr": latency.as_json(values)["hdr"],
    }
