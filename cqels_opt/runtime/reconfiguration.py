"""Changes between two micro-batches: a changed query continues a checkpoint, queries are added and removed, static data are
refreshed.

Each change computes result slots for the new parts, in one job of the runner, and counts the windows' content for the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.errors import InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import NO_INSTANT
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_operators import stream_operator
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.planner_migration import backfill_of, count_up, covered, following_planner, gone_with, reported_last
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.query_migration import counted_again, renumbered_results, without_time_slices
from cqels_opt.runtime.run_state import RunState
from cqels_opt.runtime.static_refresh import has_windows_of, keeps_state
from cqels_opt.state.pending_counts import KIND as PENDING
from cqels_opt.state.result_store import is_result
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER


class Reconfiguration:
    """Changes the programs and the state of a driver, before a batch reads anything."""

    def __init__(self, driver: RunState) -> None:
        self.driver = driver

    # -------------------------------------------------------------- a changed query
    def rebuild_state(self, number: int) -> None:
        """Derives result slots and statistics of a changed query from the binding slots of the one before."""
        driver, folder, state = self.driver, self.driver.folder, self.driver.state
        upto, ingest_state = driver.frontier.value, driver.ingest_state
        keys = {shape.stream + shape.key for shape in driver.shapes}
        ingest_state.pending = {key: waiting for key, waiting in ingest_state.pending.items() if key in keys}
        files = without_time_slices(folder, [f for f in state.files if not is_result(f)], number)
        new = {key: ingest_state.numbered(parts) for key, parts in counted_again(folder, files, driver.shapes, upto).items()}
        parts = driver.options.parts or driver.shares(sum(c.total for counts in new.values() for c in counts))
        tasks, of_step = [], driver.step_files(files)
        known = {program.id for program in driver.programs}  # another query may have the name of a program later
        state.reported = {name: at for name, at in state.reported.items() if name in known}
        for program in driver.programs:
            planner = driver.planners[program.id]
            planner.advance(new, int(BEFORE_TIME), upto)
            instants = _first_instants(self._last_instant(program))
            step = driver.bare_step(program, number, int(BEFORE_TIME), upto, instants, of_step)
            step = replace(driver.planned(program, step, sample=True), joins=planner.physical(parts))
            tasks.append(replace(driver.task_of(program, step), feeds=None))  # its graphs are elements already
        done = driver.evaluate(tasks, parts).complete()
        shares = [report for reports in done.shares.values() for report in reports]
        finished = [report for reports in done.finished.values() for report in reports]
        gone = {f.path for f in state.files} - {f.path for f in files} | {f.path for report in shares for f in report.fresh}
        emitted = {report.path for report in finished if report.path}  # before, if at all
        driver.schedule_deletion(number, gone | emitted)
        driver.state = replace(state, files=[*files, *renumbered_results(folder, done.kept)])

    def forget_statistics(self) -> None:
        """Replaces planners whose statistics are lost, and counts the content of the windows again.

        Elements that the frontier has not passed are counted again as well, and wait.
        """
        driver, state, upto = self.driver, self.driver.state, self.driver.frontier.value
        driver.new_planners()
        state.files = [file for file in state.files if file.kind != PENDING]
        driver.ingest_state.forget_counts()
        driver.update_elements(state.files)
        if upto > BEFORE_TIME:
            for program in driver.programs:
                self._count_up(program)
        waiting = counted_again(driver.folder, state.files, driver.shapes, int(FOREVER), after=max(upto, int(BEFORE_TIME)))
        for key, parts in waiting.items():
            driver.ingest_state.wait(key, driver.ingest_state.numbered(parts))

    # -------------------------------------------------------------- added and removed queries, refreshed static data
    def apply_catalog(self, number: int, catalog: QueryCatalog) -> bool:
        """Sets the queries and the static data of a batch. Returns whether the batch changes them.

        A batch changes either the queries or the version of the store, so that each change finds a complete state; queries do not
        change while some have not reported since the last version. A batch takes new changes only if no batch before it can run
        again, and if no batch that ran before a kill has reached its elements.
        """
        take = self.driver.log.is_written and self.driver.has_caught_up
        catalog.know(self.driver.scheme.displaced, self.driver.term_pages(self.driver.state.files))
        if (
            not self.driver.state.renewed
            and not catalog.store_versions.decided(number)
            and (programs := catalog.begin(number, take)) is not None
        ):
            catalog.refreshed = None
            self._change_programs(number, programs)
            return True
        if (programs := catalog.refresh(number, take, self.driver.fits)) is not None:
            self._change_store_version(number, programs)
            return True
        return False

    def check_addition(self, member: Member) -> None:
        """InputError if a query cannot be added to the running job."""
        driver = self.driver
        assert driver.catalog is not None
        if driver.catalog.fits(member):
            return
        if not member.query.windows:
            raise InputError(
                f"{member.id}: it reads no stream, and such a query is answered when a run starts: start it in another run"
            )
        if member.query.output_stream in driver.all_streams:
            raise InputError(
                f"{member.id}: it makes the stream {member.query.output}, which others read: start the run again with it"
            )
        made = {other.query.output_stream for other in driver.catalog.members()}
        for window in member.query.windows:
            if window.stream not in driver.streams and (window.stream not in driver.all_streams or window.stream not in made):
                raise InputError(f"{member.id}: it reads the stream {window.stream}, which this run does not")

    def check_removal(self, name: str) -> None:
        """InputError if a query cannot be removed from the running job."""
        assert self.driver.catalog is not None
        members = {member.id: member for member in self.driver.catalog.members()}
        stream = members[name].query.output_stream if name in members else None
        if any(window.stream == stream for member in members.values() for window in member.query.windows):
            raise InputError(f"{name}: others read the stream that it makes")

    def _change_programs(self, number: int, programs: Sequence[CompiledProgram]) -> None:
        """Sets other programs. Existing programs keep their state; new ones get the state that they would have by now.

        If that has not been kept, their windows start empty.
        """
        driver, state, upto = self.driver, self.driver.state, self.driver.frontier.value
        before, planners, running = driver.compiled, driver.planners, driver.programs
        assert driver.catalog is not None
        names = driver.catalog.continued
        coming = [p for p in programs if p.id not in names]
        changed = [p.id for p in programs if before.get(p.id, p) is not p]
        since = {name: at for name, at in state.since.items() if name in names}
        if (greatest := driver.frontier.greatest) is not None:
            since |= {p.id: greatest for p in coming if not covered(p, running, state.since, upto, self._reported_last(p))}
        old = gone_with(state.files, {*changed, *(before.keys() - names)})
        reported = {name: at for name, at in state.reported.items() if name in names}
        began = {name: at for name, at in state.began.items() if name in names}
        driver.state = replace(state, since=since, reported=reported, began=began)
        driver.set_programs(programs)
        driver.update_elements(state.files)
        driver.planners = {}
        for p in driver.programs:
            if p.id in planners and p.id not in changed:
                driver.planners[p.id] = planners[p.id]
                continue
            driver.planners[p.id] = self._following(p, planners[p.id] if p.id in names else None)
            if p.id not in names and p.id not in since:
                self._count_up(p)
        driver.forget_windows()
        new = [p for p in driver.programs if p.id in changed or p.id not in before]
        made = self._run_between_batches([self._backfill_task(p, number, known=p.id in names) for p in new if upto > BEFORE_TIME])
        self._replace(number, old, made)

    def _backfill_task(self, program: CompiledProgram, number: int, known: bool) -> EvaluateTask:
        """A task that computes the results that a program would have by now; ``known``: it existed, with other instances."""
        driver, state, upto = self.driver, self.driver.state, self.driver.frontier.value
        since = program.instances.since if known and program.instances is not None else None
        reported = self._last_instant(program)
        others = set(gone_with(state.files, {program.id}) if since is None else ())  # which this replaces
        files = driver.step_files([f for f in state.files if f not in others])
        step = driver.bare_step(program, number, upto, upto, _first_instants(reported), files)
        step = replace(step, run=f"{step.run}-taken{number}", expired_by=min(reported, upto + 1))
        taking = backfill_of(driver.planners[program.id], since)
        return replace(driver.task_of(program, step), feeds=None, backfill=taking)

    def _last_instant(self, program: CompiledProgram) -> int:
        """The last instant that a program has reported, or would have if it had run until now; from then on it counts as reported."""
        state = self.driver.state
        if (
            program.id not in state.reported
            and program.id not in state.since
            and (at := self._reported_last(program)) is not None
        ):
            state.reported[program.id] = at
        return state.reported.get(program.id, int(NO_INSTANT))

    def _reported_last(self, program: CompiledProgram) -> int | None:
        """See :func:`reported_last`."""
        driver, state, upto = self.driver, self.driver.state, self.driver.frontier.value
        moves = {w.name: driver.moves(w, state.files, upto) for w in program.windows if w.every}
        return reported_last(program, driver.ingest_state.in_order(), state.firsts, upto, moves)

    def _change_store_version(self, number: int, programs: Sequence[CompiledProgram]) -> None:
        """Programs over another version of the static store, see :mod:`cqels_opt.runtime.static_refresh`."""
        driver, upto = self.driver, self.driver.frontier.value
        before, planners = {p.id: p for p in driver.programs}, driver.planners
        last_answers = {p.id: self._last_answers_task(p, number) for p in driver.programs}
        driver.set_programs(programs)
        driver.planners = {}
        for p in driver.programs:
            known = planners[p.id] if has_windows_of(p, before[p.id]) else None
            driver.planners[p.id] = self._following(p, known)
            if known is None:
                self._count_up(p)
        driver.forget_windows()
        if upto <= BEFORE_TIME:
            return
        moved = [p for p in driver.programs if not keeps_state(before[p.id], p)]
        waiting = {*driver.state.renewed}  # their last answers are in a file already
        tasks = [task for p in moved if p.id not in waiting and (task := last_answers[p.id]) is not None]
        old = gone_with(driver.state.files, {p.id for p in moved})
        old = [f for f in old if not (f.shape.endswith("/before") and f.shape.split("/")[0] in waiting)]
        made = self._run_between_batches([*tasks, *(self._refill_task(p, number) for p in moved)])
        renewed = [*dict.fromkeys([*driver.state.renewed, *(p.id for p in moved)])]
        driver.state = replace(driver.state, renewed=renewed)
        self._replace(number, old, made)

    def _last_answers_task(self, program: CompiledProgram, number: int) -> EvaluateTask | None:
        """A task that keeps a program's answers at its last reported instant, if there are any and a later instant compares with
        them.
        """
        driver, upto = self.driver, self.driver.frontier.value
        reported = driver.state.reported.get(program.id)
        if stream_operator(program.operator).whole or reported is None:
            return None
        step = driver.bare_step(program, number, upto, upto, _first_instants(reported), driver.step_files(driver.state.files))
        return replace(driver.task_of(program, step), feeds=None, stores_last_answers=True)

    def _refill_task(self, program: CompiledProgram, number: int) -> EvaluateTask:
        """A task that computes the rows of a program's blocks from the content of its windows."""
        driver, upto = self.driver, self.driver.frontier.value
        files = driver.step_files([f for f in driver.state.files if not is_result(f)])
        step = driver.bare_step(program, number, upto, upto, _first_instants(), files)
        step = replace(step, run=f"{step.run}-taken{number}")
        return replace(driver.task_of(program, step), feeds=None, backfill=backfill_of(driver.planners[program.id], None))

    def _run_between_batches(self, tasks: Sequence[EvaluateTask]) -> list[SlotFile]:
        """The files that tasks between two batches make, in one job."""
        return renumbered_results(self.driver.folder, self.driver.evaluate(tasks, 1).complete().kept) if tasks else []

    def _following(self, program: CompiledProgram, before: QueryPlanner | None) -> QueryPlanner:
        """The planner of a program that continues that of another one, if there is one."""
        driver = self.driver
        return following_planner(program, before, driver.options.plan, driver.background_jobs, driver.shared_windows)

    def _count_up(self, program: CompiledProgram) -> None:
        """Counts the content of the windows for a new planner."""
        driver, ingest_state = self.driver, self.driver.ingest_state
        planner, upto = driver.planners[program.id], driver.frontier.value
        ingest_state.counted = count_up(planner, driver.folder, driver.state.files, upto, ingest_state.counted)

    def _replace(self, number: int, old: Sequence[SlotFile], made: Sequence[SlotFile]) -> None:
        """Files count no longer, and others do."""
        state, gone = self.driver.state, set(old)
        self.driver.state = replace(state, files=[*(f for f in state.files if f not in gone), *made])
        self.driver.schedule_deletion(number, {f.path for f in gone})


def _first_instants(last: int = int(NO_INSTANT)) -> Ints:
    """The instants of a step as if it were the first of all: those up to the ``last`` one that was reported count as one."""
    return np.unique(np.array([int(NO_INSTANT), last], np.int64))
