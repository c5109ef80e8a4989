"""What the handle of a running query, or of several, offers wherever the run's tasks run."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.compiler.registration import QueryOptions, record_of
from cqels_opt.errors import EngineWarning, InputError, LimitError
from cqels_opt.planner.explain import explained_now
from cqels_opt.plans.explain import Format
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.start_options import keywords_of
from cqels_opt.stats import summary
from cqels_opt.trace import display
from cqels_opt.trace.listener import BatchReporter
from cqels_opt.trace.records import TraceRecord

Progress = Callable[[Sequence[TraceRecord]], None]
Add = Callable[[Sequence[Member]], None]
Register = Callable[[Sequence[object], Mapping[str, Any], Add], Sequence[Member]]
RegisterFor = Callable[[Sink, Sequence[object], Mapping[str, Any], Add], Sequence[Member]]
"""Registers queries for a run with a sink, and adds them; :data:`Register` does so for one run."""


def check_timeout(timeout: object) -> None:
    """InputError for what is neither None nor a number of seconds."""
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout < 0):
        raise InputError(f"timeout={timeout!r}: a number of seconds is expected, or None to wait for the end")


class RunHandle(ABC):
    """A running query, or several. It can be awaited, stopped and inspected."""

    def __init__(
        self,
        driver: Driver,
        on_batch: Progress | None,
        register: Register | None,
        reporter: BatchReporter | None,
    ) -> None:
        """``register`` registers queries for :meth:`add` and adds them; without it, queries cannot be added or removed.

        ``reporter`` has listeners.
        """
        self.driver, self._on_batch, self._register, self._reporter = driver, on_batch, register, reporter
        self._warned = False
        self._failure: BaseException | None = None
        self._lock = threading.RLock()  # also for readers of the last batch's state, including sinks
        self.last: Sequence[TraceRecord] = ()
        self.keeps: object = None  # owns files that the run reads, and deletes them when it is collected

    @abstractmethod
    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits until the run has ended (True) or ``timeout`` seconds have passed. Raises the run's failure as our own error."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the run; uncommitted work is repeated by the next start."""

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether the run is active."""

    # -------------------------------------------------------------- batches
    @contextmanager
    def _reported(self, number: int) -> Iterator[None]:
        """Keeps and reports the failure of a batch."""
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            if self._reporter is not None and isinstance(failure, Exception):
                names = list(self.driver.planners)
                self._reporter.failure(names[0] if len(names) == 1 else None, number, failure)
            raise

    def _done(self, records: Sequence[TraceRecord]) -> None:
        """Keeps the records of a committed batch."""
        self.last = records
        self._warn_if_unreadable(records)

    def _ended(self, records: Sequence[TraceRecord], failed: Mapping[str, str]) -> None:
        """Reports a committed batch, and the queries that have ended with it; ``failed`` are those that had ended before."""
        if self._on_batch:
            self._on_batch(records)
        if self._reporter is not None:
            self._reporter.batches(records)
            for name, (batch, why) in self.driver.quotas.failures.items():
                if name not in failed:
                    self._reporter.failure(name, batch, LimitError(why))

    def _warn_if_unreadable(self, records: Sequence[TraceRecord]) -> None:
        """A batch whose triples are all rejected is most likely a DataFrame of plain strings. Python users see no trace notices."""
        last = records[0] if records else None
        if last is not None and last.rejected and not last.elements and not last.late and not self._warned:
            self._warned = True
            why = next(
                (notice.partition(": ")[2] for notice in last.notices if notice.startswith("rejected: ")), "see the rejects"
            )
            warnings.warn(
                f"all triples of batch {last.batch} are rejected ({last.rejected:,}): {why}", EngineWarning, stacklevel=2
            )

    def _most(self) -> float | None:
        """The seconds that a batch may take if each of its queries is within its limits."""
        seconds, catalog = self.driver.options.limits.seconds, self.driver.catalog
        return None if seconds is None else seconds * (len(catalog.names()) if catalog is not None else 1)

    def _finish(self) -> None:
        self.driver.close()

    # -------------------------------------------------------------- adding and removing queries
    @keywords_of(QueryOptions, record_of)
    def add(self, *queries: object, **options: Unpack[QueryOptions]) -> tuple[str, ...]:
        """Adds queries with the next batch: texts, with the options of :meth:`Engine.register`, or its results. Returns names.

        From then on, a query has the answers that it would have had, had it run from the beginning, if its patterns are those of
        other queries, in windows at least as long. Otherwise it begins with empty windows, and reads only later elements. The
        batch that adds queries writes them to the checkpoint first, and a restarted run has them. After a kill the batches that ran before
        run again first, without queries that are added then. InputError for a stream that
        this run does not read, or one that others read and the query makes, and for the name of a query that has failed in this run.
        """
        catalog, register = self._changeable()

        def add(members: Sequence[Member]) -> None:
            for member in members:
                if (reason := self.failures.get(member.id)) is not None:
                    raise InputError(f"the query {member.id!r} has failed in this run: {reason}; add it under another id")
                self.driver.reconfiguration.check_addition(member)
            if not self.is_active:
                raise InputError("the run has ended: start the queries in another one")
            catalog.add(members)

        return tuple(member.id for member in register(queries, options, add))

    def remove(self, *names: str) -> None:
        """Removes queries with the next batch (see :meth:`add`), from which on they have no answers. InputError for an unknown name."""
        catalog, _ = self._changeable()
        for name in names:
            self.driver.reconfiguration.check_removal(name)
        catalog.remove(*names)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries of the next batch."""
        return tuple(self.driver.catalog.names() if self.driver.catalog is not None else self.driver.planners)

    def _changeable(self) -> tuple[QueryCatalog, Register]:
        if self.driver.catalog is None or self._register is None:
            raise InputError(
                "queries are added to and removed from a run of Engine.start, whose rows have a column with the query; "
                "this run was started by the start of one query"
            )
        return self.driver.catalog, self._register

    @property
    def failures(self) -> dict[str, str]:
        """Queries that exceeded the limits, with the reasons: they have ended, the others continue."""
        return {name: why for name, (_, why) in self.driver.quotas.failures.items()}

    @property
    def switches(self) -> int:
        """The number of plan changes of all delta sources."""
        return self.driver.state.totals.get("switches", 0)

    def statistics(self) -> dict[str, dict[str, object]]:
        """The statistics after the last batch, by query (by template, where queries share one, as in the trace) and block."""
        with self._lock:
            return {
                program: {name: dict(summary(block.statistics)) for name, block in planner.blocks.items()}
                for program, planner in self.driver.planners.items()
            }

    def explain(self, query: str | None = None, format: Format = "text", alternatives: int = 0, analyze: bool = False) -> str:
        """EXPLAIN of a query (None: of all) after its last micro-batch, with estimated and observed rows.

        ``analyze`` adds what was measured in that micro-batch (milliseconds, bytes and skew of each operator), and what the runner-up would
        have cost with its rows.
        """
        with self._lock:
            catalog = self.driver.catalog
            wanted = query if query is None or catalog is None else catalog.program_of(query)
            planners = [planner for name, planner in self.driver.planners.items() if wanted in (None, name)]
            if not planners:
                raise InputError(f"there is no query {query!r}; there are {', '.join(self.driver.planners) or 'none'}")
            return explained_now(planners, self.driver.options.plan, format, alternatives, self.last if analyze else None)

    def plans(self) -> dict[str, dict[str, str]]:
        """The plan of each delta source, by query (by template, where queries share one, as in the trace)."""
        with self._lock:
            return {
                program: {s: str(d.plan) for block in planner.blocks.values() for s, d in block.delta_plans.items()}
                for program, planner in self.driver.planners.items()
            }

    def live(self, query: str, failure: object = None) -> str:
        """The state of a query as HTML."""
        with self._lock:
            last = next((record for record in self.last if record.query == query), None)
            return display.live(query, last, self.switches, self.driver.state.totals, failure, self.explain(query, "json"))

    def watch(self, every: float = 1.0) -> None:
        """Shows the state of the run in a notebook, refreshed every ``every`` seconds, until the run ends.

        Interrupting the cell does not affect the run. A failure of the run is raised after its last state is shown.
        """
        display.watch(self, every)

    @property
    def progress(self) -> str:
        """The number of micro-batches and of plan switches, as text."""
        return f"{self.driver.state.batch + 1} micro-batches, {self.switches} plan switches"

    def __repr__(self) -> str:
        state = "active" if self.is_active else "not active"
        return f"{type(self).__name__}({list(self.driver.planners)}, {self.progress}, {state})"

    def _repr_html_(self) -> str:
        return "".join(self.live(query) for query in self.driver.planners)
