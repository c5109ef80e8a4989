"""``cqels-opt bench arena``: workloads of the field, the engine and rivals in processes of their own, one verdict per query and rival.

A workload is a scenario (:mod:`cqels_opt.bench.declared`) of the folder ``workloads``; a rival is a contender
(:mod:`cqels_opt.bench.contenders`). Decision 057 says how they are compared.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.status import Status

from cqels_opt.bench import csrbench, yabench
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.arena.runs import measured, rivals
from cqels_opt.bench.arena.verdicts import ORDER, OURS, REFERENCE, in_order, rows
from cqels_opt.bench.comparing import Worlds, case_text
from cqels_opt.bench.contenders import Contender, Given, find
from cqels_opt.bench.declared import Scenario, read
from cqels_opt.errors import InputError
from cqels_opt.query.mistakes import nearest

WORKLOADS = {file.stem: file for file in sorted((Path(__file__).parent / "workloads").glob("*.toml"))}
"""The files of the workloads, by name."""
ANSWERS: Mapping[str, ModuleType] = {"csrbench": csrbench, "yabench": yabench}
"""Workloads without times: answers alone are compared."""


def study(
    quick: bool, workloads: Sequence[str] = (), chosen: Sequence[str] = (), more: Sequence[Given] = (), spark: bool = True
) -> dict[str, Any]:
    """Runs the named workloads (default: all) with the ``chosen`` rivals (default: those of each workload) and those of files.

    The engine and the independent evaluation always run. A workload that is not named is left out where its data are missing, and so
    is a rival that is not installed.
    """
    for name in workloads:
        if name not in (known := (*WORKLOADS, *ANSWERS)):
            raise InputError(f"--workload: there is no {name!r}{nearest(name, known)}; there are {', '.join(known)}")
    progress = Console(stderr=True)
    found, about, missing = list[Mapping[str, Any]](), dict[str, str](), dict[str, str]()
    described, left_out = list[dict[str, Any]](), dict[str, str]()
    correctness = dict[str, Any]()
    for name in workloads or (*WORKLOADS, *ANSWERS):
        if name in ANSWERS:
            with progress.status(f"{name}: answers"):
                try:
                    correctness[name] = ANSWERS[name].study(quick)
                except InputError as error:
                    if workloads:
                        raise
                    left_out[name] = str(error)
            continue
        began = time.perf_counter()
        scenario = read(WORKLOADS[name], quick)
        names = (OURS, REFERENCE, *chosen) if chosen else scenario.contenders
        contenders = [one for one in find(names, more) if spark or not one.spark]
        missing |= {one.name: f"make arena-rivals RIVAL={one.name}" for one in contenders if not is_installed(one)}
        for rival in missing.keys() & set(chosen):
            raise InputError(f"--rival: {rival} is not installed: {missing[rival]}")
        contenders = [one for one in contenders if one.name not in missing]
        about |= {one.name: with_version(one) for one in contenders}
        with scratch_folder("arena") as folder, rivals(contenders, more, folder / "rivals") as among:
            worlds = Worlds(scenario, folder)
            for case in scenario.cases():
                with progress.status(f"{name}: data") as status:
                    try:
                        data, tasks = worlds.tasks(case)
                    except InputError as error:
                        if workloads:
                            raise
                        left_out[name] = str(error)
                        continue
                    among.start()
                    for task in tasks.values():
                        runs = measured(task, among, scenario.limit, partial(_update, status, name))
                        found += [{**row, **case.parameters} for row in rows(name, task, runs, scenario.stream.warm_up)]
                seconds = time.perf_counter() - began
                described.append(_described(name, scenario, data.description, case_text(case), seconds))
                progress.print(f"{name}: {len(tasks)} queries, {seconds:.0f} s", highlight=False)
    counts = Counter(row["verdict"] for row in found)
    return {
        "taken": datetime.now(UTC).isoformat(timespec="minutes"),
        "workloads": described,
        "left_out": left_out,
        "rivals": about,
        "not_installed": missing,
        "verdicts": {verdict: counts[verdict] for verdict in ORDER},
        "results": in_order(found),
        "correctness": correctness,
    }


def is_installed(one: Contender) -> bool:
    """Whether a contender can run: most need nothing that is installed separately."""
    return one.installed is None or one.installed() is not None


def with_version(one: Contender) -> str:
    """The sentence about a contender, with the version of what is installed separately."""
    return one.about if one.installed is None else f"{one.about}; {one.installed()}"


def _update(status: Status, workload: str, text: str) -> None:
    status.update(f"{workload} {text}")


def _described(name: str, scenario: Scenario, data: str, case: str, seconds: float) -> dict[str, Any]:
    return {
        "name": name,
        "title": scenario.title,
        "about": scenario.about,
        "data": data,
        "case": case,
        "seed": scenario.seed,
        "limit_cpu_seconds": scenario.limit,
        "warm_up": scenario.stream.warm_up,
        "seconds": seconds,
    }


def show(found: Mapping[str, Any]) -> None:
    """Prints the verdicts, the losses first."""
    from cqels_opt.bench.arena.page import HEADS, cells, summary
    from cqels_opt.bench.screen import console, numbers, table

    screen = console()
    lines = table(*HEADS[:4], *numbers(*HEADS[4:-1]), HEADS[-1], title="Arena: the rival's CPU time over the engine's")
    for row in found["results"]:
        lines.add_row(*cells(row))
    screen.print(lines)
    screen.print(summary(found), highlight=False)
    for name, compared in found["correctness"].items():
        ANSWERS[name].show(compared)
    for name, command in found["not_installed"].items():
        screen.print(f"{name} is not installed: {command}", highlight=False)
