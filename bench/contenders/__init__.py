"""The interface of contenders, and the registry of them. docs/extending.md shows how to add one.

A contender is a name and a generator function. The generator prepares (tables, indexes; not measured), yields None, and then
yields a :class:`Done` for each micro-batch of the task, in order. The harness measures the time until the next one, and
reads the answers after the clock has stopped. Because they are generators, several contenders take turns batch by batch.

A contender comes from this package, from the entry points ``cqels_opt.contenders`` of an installed one, or from a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt import plugins
from cqels_opt.bench.answers import Answer
from cqels_opt.errors import CqelsOptError, InputError
from cqels_opt.query.mistakes import nearest
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplayPlan

__all__ = ["Answer", "Contender", "Done", "Given", "Run", "Task", "UnsupportedError", "available", "built_in", "find"]

FILES = ("engine", "clairvoyant", "system_x", "oxigraph", "duck", "relational", "typed_rows", "triples", "on_spark")
"""The modules of this package, each with a tuple ``CONTENDERS``."""

LIMITS = ("duckdb.seconds", "pyoxigraph.cpu_seconds", "rdf-engines.cpu_seconds")
"""The options that are seconds: of one evaluation, of a run, and of a run of each engine in :mod:`.triples`."""
OPTIONS = (*LIMITS, "system-x.cache")
"""The options of the contenders of this package."""

Given: TypeAlias = "Path | str"
"""A contender on the command line: a file, or the name of an entry point."""


class UnsupportedError(CqelsOptError):
    """A contender cannot run a query: the report leaves it out for this query, with the reason."""


class StoppedError(CqelsOptError):
    """A contender stopped within a micro-batch, at a limit of its own; its answers are complete up to ``upto``."""

    def __init__(self, batch: int, batches: int, limit: str, upto: int) -> None:
        super().__init__(f"stopped within micro-batch {batch + 1} of {batches}: over {limit}")
        self.upto = upto


@dataclass(frozen=True, slots=True)
class Task:
    """A query over a replay that is cut into micro-batches, and static data; all data are in files.

    The keys of ``streams`` and ``graphs`` are IRIs without brackets. ``store`` has the data of ``static`` and ``graphs``, loaded for
    the engine. ``sql`` is the folder with the query in SQL, ``<query>.sql``. In the folder ``shared`` a contender may keep what it
    derives from the static data, for the next task over the same data. ``limit``: wall-clock seconds after which an engine in a process
    of its own that does not end a micro-batch is killed.
    """

    query: str
    text: str
    streams: Mapping[str, Path]
    static: tuple[Path, ...]
    graphs: Mapping[str, Path]
    store: Path
    replay: ReplayPlan
    batch: BatchSize
    shared: Path
    sql: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    limit: float = math.inf

    @property
    def chunks(self) -> Sequence[Path]:
        """The micro-batches: Parquet with the columns ``stream s p o g t`` (and more); ``stream`` numbers :attr:`stream_names`."""
        return [self.replay.path(number) for number in range(len(self.replay.chunks))]

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The IRIs of the streams, without brackets, by their number in the chunks."""
        return tuple(name.strip("<>") for name in self.replay.streams)


def elements(chunk: Path) -> pa.Table:
    """The elements of a micro-batch that are not late: columns ``stream s p o g t``, terms as N-Triples, ``t`` in milliseconds."""
    rows = parquet.read_table(chunk)
    if any(rows["late"].to_pylist()):
        rows = rows.filter([not late for late in rows["late"].to_pylist()])
    return rows.select(["stream", "s", "p", "o", "g", "t"])


def limit(options: Mapping[str, object], name: str) -> float:
    """One of :data:`LIMITS`, in seconds; infinite where it is not given."""
    found = options.get(name, math.inf)
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise InputError(f"options.{name}: must be a number of seconds, not {found!r}")
    return float(found)


def check_options(options: Mapping[str, object]) -> None:
    """InputError for an option that no contender of this package has, or a limit that is no number. Other contenders have any option."""
    for name in options:
        contender = name.partition(".")[0]
        own = [option for option in OPTIONS if option.startswith(f"{contender}.")]
        if name not in OPTIONS and (own or contender in built_in()):
            raise InputError(f"options.{name}: the contender has no such option; it has {', '.join(own) or 'none'}")
        if name in LIMITS:
            limit(options, name)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a micro-batch.

    The harness reads ``answers`` after the clock has stopped, so an iterator may convert them lazily. ``milliseconds`` replaces the
    harness's measurement where that does not fit, as for a streaming query that Spark runs. ``phases`` splits the milliseconds by
    phase; the report shows ``optimize`` as the optimizer's share. ``stopped``: the run ends within this micro-batch.
    """

    answers: Iterable[Answer] = ()
    milliseconds: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    stopped: StoppedError | None = None


Run: TypeAlias = "Callable[[Task, Path], Iterator[Done | None]]"
"""A task and an empty folder -> for each micro-batch None when ready, then its result."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A name, one sentence about it, and its run.

    ``apart``: it runs in its own process (with a JVM) and takes no turns. ``answers``: False for a contender that emits no answers
    and serves as a lower bound. ``spark``: it needs Spark and Java. ``installed`` returns the version of software that is
    installed separately, None where it is missing.
    """

    name: str
    about: str
    run: Run
    apart: bool = False
    answers: bool = True
    spark: bool = False
    installed: Callable[[], str | None] | None = None


def built_in() -> dict[str, Contender]:
    """All contenders that come with the project, by name."""
    found = [c for name in FILES for c in import_module(f"{__name__}.{name}").CONTENDERS]
    return {contender.name: contender for contender in found}


def available() -> dict[str, Contender]:
    """All contenders that come with the project and with other installed packages, by name."""
    return built_in() | {name: _added(name) for name in plugins.names("contenders")}


def _added(name: str) -> Contender:
    """The contender of an entry point."""
    return plugins.load_named("contenders", name, Contender)


def _given(one: Given) -> Sequence[Contender]:
    """The contender of an entry point's name, those of a Python file's ``CONTENDERS``, or the external engine of a TOML file."""
    if isinstance(one, str):
        return [_added(one)]
    if one.suffix == ".toml":
        return [import_module(f"{__name__}.process").described(one)]
    from cqels_opt.bench.loading import module_of

    found = getattr(module_of(one), "CONTENDERS", None)
    if not isinstance(found, tuple | list) or not found or not all(isinstance(c, Contender) for c in found):
        raise InputError(f"{one}: a file of contenders has CONTENDERS = (Contender(…), …)")
    return found


def find(names: Iterable[str], more: Sequence[Given] = ()) -> list[Contender]:
    """The contenders of these names, and all that are given. Installed packages are imported only for names that a scenario uses."""
    known, added, given = built_in(), plugins.names("contenders"), list[str]()
    for one in more:
        for contender in _given(one):
            if contender.name in known or (contender.name in added and contender.name != one):
                raise InputError(f"{one}: the name {contender.name!r} is taken by another contender")
            known[contender.name] = contender
            given.append(contender.name)
    for name in names:
        if name not in known and name in added:
            known[name] = _added(name)
        if name not in known:
            every = list(dict.fromkeys((*known, *added)))
            raise InputError(f"there is no contender {name!r}{nearest(name, every)}; there are {', '.join(every)}")
    return [known[name] for name in dict.fromkeys((*names, *given))]
