"""Engines in processes of their own that read typed rows: Apache Flink, Esper, Pathway and Differential Dataflow.

Each is installed separately. The rows are those of the relational stores (:mod:`cqels_opt.bench.contenders.relational`):
``schema.sql`` and ``ingest.sql`` of the task make them before the clock starts, so that such an engine never parses RDF. The query is
``<engine>/<query>.<suffix>`` in the same folder, in the engine's own language; ``<query>.txt`` instead says why it has none, or
``others.txt`` for all that are missing. A process starts with the first query over the same static data, and runs the next ones as well.

Messages are lines of values that are separated by tabs; the first value of a row is its table, a null is ``\\N``::

    -> #table  channel  static  id text  company text       (or stream; the types are text, integer and double)
    -> channel  <http://…>  <http://…>                      (the rows of all static tables)
    -> #start  /…/q13.sql                                   (a query)
    <- #ready  time  bid  price                             (the columns of its answers; those with _ in front do not count)
    -> bid  <http://…>  100  1198800000000                  (the rows of a micro-batch in the order of their times)
    -> #end  0  1198800000999                               (no later row has a time up to this)
    <- 1198800000000  <http://…>  100
    <- #done  0
    -> #stop                                                (after the last micro-batch, or instead of the next one)
    <- #stopped

The clock runs from the first row of a micro-batch to its ``#done``. Answers are parsed after it has stopped.
"""

from __future__ import annotations

import atexit
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.compute as pc
import pyarrow.parquet as parquet

from cqels_opt.bench.answers import value_of
from cqels_opt.bench.contenders import Answer, Contender, Done, StoppedError, Task, UnsupportedError
from cqels_opt.bench.contenders.process import Talk, engine_process
from cqels_opt.bench.contenders.relational import INGEST, DuckDB, load_tables, sql_of, take_batch
from cqels_opt.errors import InputError, RunError

SOURCES = Path(__file__).resolve().parents[1] / "arena" / "engines"
"""The programs that run the engines."""
NULL = "\\N"
_TYPES = {"VARCHAR": "text", "INTEGER": "integer", "BIGINT": "integer", "DOUBLE": "double"}


@dataclass(frozen=True, slots=True)
class Table:
    """A typed table: its columns with their types, and whether its rows are static."""

    name: str
    static: bool
    columns: tuple[tuple[str, str], ...]

    @property
    def line(self) -> str:
        """The message that describes it."""
        return "\t".join(("#table", self.name, "static" if self.static else "stream", *map(" ".join, self.columns))) + "\n"


class Session:
    """A process of an engine with the static rows of a task, and the tables that make the rows of streams."""

    def __init__(self, engine: Engine, task: Task) -> None:
        self.engine, self.static = engine, (task.store, task.sql)
        self._resources = ExitStack()
        self.folder = folder = Path(self._resources.enter_context(TemporaryDirectory(prefix="cqels-opt-engine-")))
        self.tables = self.load(task)
        command = engine.command(engine.folder, task.shared)
        self.talk = self._resources.enter_context(engine_process(engine.name, command, folder, folder))
        self.talk.say(self.opening())

    def load(self, task: Task) -> Sequence[Table]:
        """Loads the static data; returns the tables of the engine."""
        self._store = self._resources.enter_context(closing(DuckDB(self.folder)))
        load_tables(self._store, task)
        return described(self._store)

    def rows(self, table: Table) -> Iterable[str]:
        """The lines of a static table."""
        return _lines(self._store, table.name)

    def opening(self) -> str:
        """The messages before the first query: the tables, and the static rows."""
        static = (f"{table.name}\t{line}\n" for table in self.tables if table.static for line in self.rows(table))
        return "".join([*(table.line for table in self.tables), *static])

    def batches(self, task: Task) -> list[str]:
        """The messages of each micro-batch."""
        found, times = list[str](), [_span(chunk) for chunk in task.chunks]
        for number, lines in enumerate(self.lines(task)):
            final = times[number + 1][0] - 1 if number + 1 < len(times) else times[number][1]
            found.append("".join(lines) + f"#end\t{number}\t{final}\n")
        return found

    def lines(self, task: Task) -> Iterator[Iterable[str]]:
        """The rows of each micro-batch."""
        streams = [table for table in self.tables if not table.static]
        self._store.script("; ".join(f"DELETE FROM {table.name}" for table in streams))  # of the query before
        ingest = sql_of(task, INGEST)
        for chunk in task.chunks:
            take_batch(self._store, chunk, ingest)
            rows = list[tuple[int, str]]()
            for table in streams:
                place = [name for name, _ in table.columns].index("t")
                lines = _lines(self._store, f"now_{table.name}")
                rows += ((int(line.split("\t")[place]), f"{table.name}\t{line}\n") for line in lines)
            rows.sort(key=lambda row: row[0])
            yield (line for _, line in rows)

    def pieces(self, batch: str) -> Sequence[str]:
        """The messages of a micro-batch in pieces that the engine gets one after the other."""
        return (batch,)

    def limit(self, task: Task) -> float:
        """The CPU seconds after which the query is stopped within a micro-batch, at the end of a piece."""
        return math.inf

    def close(self) -> None:
        """Ends the process."""
        self._resources.close()


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine: its name, the suffix of its queries, and the command for its folder and a folder for compiled programs.

    ``session`` says which rows it gets. ``make arena-rivals RIVAL=<name>`` installs it into its folder, and writes the file ``version``
    there at the end.
    """

    name: str
    suffix: str
    command: Callable[[Path, Path], Sequence[str]]
    session: type[Session] = Session

    @property
    def folder(self) -> Path:
        """Where it is installed: below ``CQELS_OPT_RIVALS``, by default ``.rivals``."""
        return Path(os.environ.get("CQELS_OPT_RIVALS", ".rivals")).resolve() / self.name

    def version(self) -> str | None:
        """The installed version; None if it is not installed."""
        file = self.folder / "version"
        return file.read_text(encoding="utf-8").strip() if file.is_file() else None

    def contender(self, about: str) -> Contender:
        """The engine as a contender of the harness."""
        return Contender(self.name, about, partial(run, engine=self), installed=self.version)


_SESSIONS: dict[str, Session] = {}
"""The session of each engine in this process."""


@atexit.register
def close_sessions() -> None:
    """Ends the processes of all engines."""
    while _SESSIONS:
        _SESSIONS.popitem()[1].close()


def run(task: Task, folder: Path, engine: Engine) -> Iterator[Done | None]:
    """Start the query in the engine's process; each micro-batch is then an exchange of messages."""
    if engine.version() is None:
        raise InputError(f"{engine.name} is not installed: make arena-rivals RIVAL={engine.name}")
    query = _query(task, engine)
    session = _SESSIONS.pop(engine.name, None)  # back in place once the query has stopped
    if session is not None and session.static != (task.store, task.sql):
        session.close()
        session = None
    session = session or engine.session(engine, task)
    try:
        batches, talk = session.batches(task), session.talk
        with talk.at_most(task.limit, RunError(f"the engine {engine.name}: not ready after {task.limit:g} s")):
            talk.say(f"#start\t{query}\n")
            names = _until(talk, "#ready")[1].split("\t")
        limit = session.limit(task)
        limit += _cpu(talk) if limit < math.inf else 0.0
        try:
            final = -1
            for number, text in enumerate(batches):
                lines, pieces, reason = list[str](), session.pieces(text), None
                yield None
                with talk.at_most(task.limit, StoppedError(number, len(batches), f"{task.limit:g} s", final)):
                    for piece in pieces:
                        talk.say(piece)
                        lines += _until(talk, "#done")[0]
                        if piece is not pieces[-1] and limit < math.inf and _cpu(talk) > limit:
                            reason = StoppedError(number, len(batches), f"{session.limit(task):g} CPU seconds", _final(piece))
                            break
                final = _final(text)
                yield Done(_answers(names, lines), stopped=reason)
                if reason is not None:
                    raise reason
        except GeneratorExit:  # stopped between two micro-batches
            if sys.is_finalizing():
                raise
    except BaseException:
        session.close()
        raise
    try:
        with talk.at_most(task.limit, RunError(f"the engine {engine.name}: not stopped after {task.limit:g} s")):
            talk.say("#stop\n")
            _until(talk, "#stopped")
    except RunError:  # after the last answer; the next query starts another process
        session.close()
    else:
        _SESSIONS[engine.name] = session


def _query(task: Task, engine: Engine) -> Path:
    """The file of the query; UnsupportedError where the engine has none."""
    if task.sql is None:
        raise UnsupportedError(f"the scenario has no folder of SQL, which makes the rows of {engine.name}")
    query = task.sql / engine.name / f"{task.query.lower()}.{engine.suffix}"
    if query.is_file():
        return query
    for reason in (query.with_suffix(".txt"), query.with_name("others.txt")):
        if reason.is_file():
            raise UnsupportedError(reason.read_text(encoding="utf-8").strip())
    raise UnsupportedError(f"there is no {query.name} for {engine.name}")


def described(store: DuckDB) -> list[Table]:
    """The typed tables of a store: those with a table ``now_…`` of new rows are streams."""
    order = (
        "SELECT table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables USING (table_name) "
        "WHERE table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position"
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for name, column, kind in store.ask(order)[1]:
        found.setdefault(name, []).append((column, _TYPES[kind]))
    given = {"triples", "now_elements"}
    return [
        Table(name, f"now_{name}" not in found, tuple(columns))
        for name, columns in found.items()
        if name not in given and not name.startswith("now_")
    ]


def _lines(store: DuckDB, source: str) -> Iterator[str]:
    for row in store.ask(f"SELECT * FROM {source}")[1]:
        yield "\t".join(NULL if value is None else str(value) for value in row)


def _span(chunk: Path) -> tuple[int, int]:
    """The least and the greatest time of a micro-batch."""
    found = pc.min_max(parquet.read_table(chunk, columns=["t"]).column("t"))
    return found["min"].as_py(), found["max"].as_py()


def _cpu(talk: Talk) -> float:
    """The CPU seconds of the process, by the number of its clock (clock_getcpuclockid(3) of glibc)."""
    return time.clock_gettime(~talk.process.pid << 3 | 2)


def _final(piece: str) -> int:
    """The time in the message at the end."""
    return int(piece.rsplit("\t", 1)[1])


def _until(talk: Talk, word: str) -> tuple[list[str], str]:
    """The lines before the message that begins with ``word``, and the rest of the message."""
    lines = list[str]()
    while not (line := talk.line()).startswith(word):
        lines.append(line)
    return lines, line.rstrip("\n").partition("\t")[2]


def _answers(names: Sequence[str], lines: Sequence[str]) -> Iterator[Answer]:
    for line in lines:
        values = dict(zip(names, line.rstrip("\n").split("\t")))
        at = int(values.pop("time"))
        yield at, {name: value_of(value) for name, value in values.items() if value != NULL and not name.startswith("_")}


def java(main: str, jars: str, options: Sequence[str], installed: Path, shared: Path) -> Sequence[str]:
    """Compiles the program of an engine with its jars, once per folder ``shared``; returns the command that starts it."""
    path, classes = f"{installed / jars}/*", shared / f"classes-{main}"
    if not classes.exists():
        compiler = shutil.which("javac")
        if compiler is None:
            raise InputError(f"the rival {main.lower()} needs a JDK of Java 17 or newer: javac is not on the path")
        options_of_compiler = ["-nowarn", "-d", str(classes), "-cp", path, "-sourcepath", str(SOURCES)]
        done = subprocess.run(
            [compiler, *options_of_compiler, str(SOURCES / f"{main}.java")], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise InputError(f"{main}.java cannot be compiled: {done.stderr.strip()}")
    return ["java", *options, "-cp", f"{classes}{os.pathsep}{path}", main]


def _python(installed: Path, shared: Path) -> Sequence[str]:
    return [str(installed / "bin" / "python"), str(SOURCES / "pathway_engine.py")]


def binary(name: str) -> Callable[[Path, Path], Sequence[str]]:
    """The program that cargo builds."""
    return lambda installed, shared: [str(installed / "release" / name)]


JVM = ("-XX:+UseParallelGC",)
_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent")
)
FLINK = Engine("flink", "sql", partial(java, "Flink", "pyflink/lib", (*JVM, *_OPENED)))
ESPER = Engine("esper", "epl", partial(java, "Esper", "jars", JVM))
PATHWAY = Engine("pathway", "py", _python)
DIFFERENTIAL = Engine("differential", "rs", binary("differential"))

CONTENDERS = (
    FLINK.contender("Apache Flink's SQL over typed rows, with event time: one streaming job in a JVM of its own"),
    ESPER.contender("Esper's EPL over typed rows, with external time, in a JVM of its own"),
    PATHWAY.contender("Pathway over typed rows: incremental dataflow in a Python process of its own"),
    DIFFERENTIAL.contender("Differential Dataflow over typed rows: a program in Rust with one worker"),
)
