"""Planners of programs that replace others in a running job: the state that stays, and the state that is computed (DESIGN §4.3, §9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.rows import Ints
from cqels_opt.planner.background_jobs import BackgroundJobs
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.query.algebra import Window
from cqels_opt.query.templates import INSTANCE
from cqels_opt.runtime.backfill import Backfill
from cqels_opt.runtime.query_migration import counted_all, patterns_of
from cqels_opt.state.result_store import is_result
from cqels_opt.stats import BlockStatistics, SharedWindows, SlotCounts, load, save
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.instants import filled_until, instants, retained_from
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of


def following_planner(
    program: CompiledProgram,
    before: QueryPlanner | None,
    mode: PlannerOptions,
    background_jobs: BackgroundJobs,
    shared: SharedWindows,
) -> QueryPlanner:
    """The planner of a program that continues that of the program's earlier instances, or of another version of the static data.

    The windows are the same, with their statistics. Plans, measured costs and the design continue if the static relations have the same
    names.
    """
    planner = QueryPlanner(program, mode, background_jobs, shared)
    if before is None:
        return planner
    for name, block in planner.blocks.items():
        if (old := before.blocks.get(name)) is not None and set(old.statistics.windows) == set(block.statistics.windows):
            continue_statistics(old.statistics, block.statistics)
            if old.catalogue.names == block.catalogue.names and block.resume(old.state()):
                block.optimizer.resume(old.optimizer.state())
    return planner


def continue_statistics(before: BlockStatistics, after: BlockStatistics) -> None:
    """Continues the statistics of a block whose windows are the same; those that both share need not be copied."""
    if all(window is before.windows[name] for name, window in after.windows.items()):
        after.resume(before.state())
    else:
        load(save(before), after)


def count_up(planner: QueryPlanner, folder: Path, files: Sequence[SlotFile], upto: int, number: int) -> int:
    """Counts the content of the windows for a new planner; returns the last number that was given to counts."""
    found = counted_all(folder, files, planner.compiled.shapes, upto)
    numbered: dict[str, list[SlotCounts]] = {}
    for key, parts in found.items():
        numbered[key] = []
        for part in parts:
            number += 1
            numbered[key].append(replace(part, slot=number))
    planner.begin(numbered, int(BEFORE_TIME), upto)
    return number


def backfill_of(planner: QueryPlanner, since: int | None) -> Backfill:
    """The new part of a program, with a plan for each block that has new rows."""
    plans = {
        name: block.plan_over_window_content(INSTANCE.name if since is not None else None)
        for name, block in planner.blocks.items()
        if since is None or INSTANCE.name in block.block.output
    }
    return Backfill(since, plans)


def reported_last(
    program: CompiledProgram, times: Mapping[str, Ints], firsts: Mapping[str, int], upto: int, moves: Mapping[str, Ints]
) -> int | None:
    """The last instant at which the query would have reported; None if there was no such instant.

    The times of elements that have left all windows are forgotten. Where each change of the windows is reported, a later instant at which
    they have the same content serves as well.
    """
    first = min((firsts[s] for s in program.streams if s in firsts), default=None)
    if first is None:
        return None
    reaches = [kind_of(w).reach for w in program.windows]
    reach = max((known for known in reaches if known is not None), default=0)
    reach += 2 * max((program.report.policy(w.name).period for w in program.windows), default=0)
    after = int(BEFORE_TIME) if None in reaches else upto - 2 * reach
    found = instants(program.windows, program.report, times, first, after, upto, moves)
    last = int(found[-1]) if len(found) else None
    policies = {program.report.policy(w.name) for w in program.windows}
    policy = policies.pop() if len(policies) == 1 else None
    if policy is None or not policy.content_change or (policy.non_empty and len(program.windows) > 1):
        return last
    origins = {w.name: program.report.origin(w.name) for w in program.windows}
    if last is None:
        windows = [w for w in program.windows if w.stream in firsts and not w.every]  # of a window that moves, the moves say so
        if all(filled_until(w, origins[w.name], np.array([firsts[w.stream]], np.int64), upto) is None for w in windows):
            return None  # not even the first elements have entered a window
    if not policy.non_empty:
        return upto
    (window,) = program.windows
    filled = filled_until(window, origins[window.name], times[window.stream], upto)
    return last if filled is None else filled


def gone_with(files: Iterable[SlotFile], programs: Collection[str]) -> list[SlotFile]:
    """The files of results of some programs, and of everything derived from them."""
    return [f for f in files if is_result(f) and f.shape.split("/")[0] in programs]


def covered(
    program: CompiledProgram, running: Sequence[CompiledProgram], since: Mapping[str, int], now: int, last: int | None
) -> bool:
    """Whether a run keeps everything that a query's windows would hold now, had the query been there from the start.

    ``since``: programs that began with empty windows, and the time after which they have elements. ``last``: the last instant at which the
    query would have reported.
    """
    last = now if last is None else min(last, now)
    if since:
        kept = [retained_from(program.windows, program.report, stream, last) for stream in program.streams]
        counts, nothing = any(kind_of(w).counts_elements for w in program.windows), int(BEFORE_TIME)
        earliest = nothing if counts or None in kept else min((at for at in kept if at is not None), default=nothing)
        running = [p for p in running if p.id not in since or since[p.id] < earliest]
    there, needed = (patterns_of(programs).keys() | _sets(programs) for programs in (running, [program]))
    if not needed <= there or now <= BEFORE_TIME:
        return needed <= there
    for stream in program.streams:
        mine = retained_from(program.windows, program.report, stream, last)
        others = [retained_from(p.windows, p.report, stream, now) for p in running if stream in p.streams]
        if not any(kept is None or (mine is not None and kept <= mine) for kept in others):
            return False
        if _depth(program.windows, stream) > max((_depth(p.windows, stream) for p in running), default=0):
            return False
    return True


def _sets(programs: Sequence[CompiledProgram]) -> set[str]:
    """The shapes that are matched as sets: their time slices also record the previous time of each triple."""
    parts = [o for program in programs for block in program.blocks for occurrence in block.occurrences for o in occurrence.parts]
    return {f"{o.shape.stream} {o.shape.key} set" for o in parts if o.distinct}


def _depth(windows: Sequence[Window], stream: str) -> int:
    """How many of the last elements of a stream the windows that count them need."""
    return max((kind_of(w).depth for w in windows if w.stream == stream), default=0)
