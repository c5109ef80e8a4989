"""Runs of the engine without Spark, for studies that count rows instead of time.

The files are loaded, compiled and cut as for a replay; each chunk is a micro-batch of the driver with the local runner. All runs
of one query must give one bag of answers, whatever their plans: :func:`check_same`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.bench.social import Phase, social
from cqels_opt.compiler.block_builder import PAGE
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.errors import RunError
from cqels_opt.lod.build import build_store
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner.background_jobs import at_once
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import Failures, StaticSource, read_all
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.runtime.interfaces import Runner, Sink, TraceLog
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import Background, DriverOptions
from cqels_opt.storage.shared_cache import SharedCache, cached
from cqels_opt.trace.records import Delta, OperatorRecord, TraceRecord
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.replay import ReplayPlan, ReplaySource, cut

if TYPE_CHECKING:  # it imports rdflib
    from cqels_opt.verify import Element

ADAPTIVE = PlannerOptions()
DETERMINISTIC = Background(views=at_once)
"""All jobs are done within the batch that starts them: row counts are the same in each run."""


def load(folder: Path, sources: Sequence[StaticSource]) -> Path:
    """A store of static files, created in this process."""
    quads = (quad for block in read_all(sources, Failures(skip=False)) for quad in zip(block.s, block.p, block.o, block.g))
    build_store(folder, quads, durable=False)
    return folder


def small_world(folder: Path, seed: int, places: int, elements: int, phases: Sequence[Phase], quick: bool) -> tuple[Path, Path]:
    """The report's world at a size that runs in seconds: its store, and its stream."""
    world = social(
        folder,
        seed=seed,
        authors=600 if quick else 2_000,
        coauthor_pairs=6_000 if quick else 20_000,
        places=places,
        elements=elements,
        rate=50.0 if quick else 100.0,
        phases=phases,
    )
    return load(folder / "store", world.sources), world.stream


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: its trace records, one per batch, and its answers, counted and as the digest of a bag."""

    name: str
    records: tuple[TraceRecord, ...]
    answers: int
    digest: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query compiled over a store, and its stream cut into micro-batches."""

    name: str
    program: CompiledProgram
    replay: ReplayPlan
    folder: Path

    def run(self, name: str, mode: PlannerOptions, answers: Path | None = None) -> Ran:
        """Runs the query from its first batch to its last; writes its answers to a file if one is given."""
        from cqels_opt.bench.answers import digest_of_answers  # it imports rdflib

        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out = answers or Path(scratch) / "answers.jsonl"
            records, lines = self.finish(Path(scratch) / "state", mode, out=out)
            return Ran(name, records, len(lines), digest_of_answers(out))

    def finish(
        self, state: Path, mode: PlannerOptions = ADAPTIVE, drain: bool = False, out: Path | None = None
    ) -> tuple[tuple[TraceRecord, ...], list[str]]:
        """Runs all batches; the trace records and the lines of answers, which are also written to ``out``."""
        sink = LocalSink()
        driver = self.driver(state, sink, mode=mode, drain=drain)
        records = tuple(record for number, rows in enumerate(self.chunks()) for record in driver.batch(number, rows))
        if out is not None:
            out.write_text("".join(line + "\n" for line in sink.lines), encoding="utf-8")
        return records, sink.lines

    def driver(
        self,
        state: Path,
        sink: Sink,
        trace: TraceLog | None = None,
        mode: PlannerOptions = ADAPTIVE,
        drain: bool = False,
        runner: Runner | None = None,
        commit_every: float = 0.0,
        background: Background = DETERMINISTIC,
    ) -> Driver:
        """A driver with a folder for its state, without Spark unless a runner is given; with ``drain`` its windows empty at the end.

        ``commit_every``: seconds between two commit records; 0: each batch has one."""
        options, pages = DriverOptions(drain=drain, plan=mode, commit_every=commit_every), self.pages()
        frontier, programs = finite_frontier(self.replay, 0, eager=False), [self.program]
        return Driver(
            state, programs, runner or LocalRunner(), sink, frontier, options, pages=pages, trace=trace, background=background
        )

    def chunks(self) -> Iterable[pa.Table]:
        """The rows of each micro-batch."""
        return (parquet.read_table(self.replay.path(number)).cast(ELEMENT_ROWS) for number in range(len(self.replay.chunks)))

    def pages(self) -> list[SlotFile]:
        """The pages of the query's own terms."""
        page = self.folder / PAGE
        return [SlotFile("terms", str(page), greatest=int(FOREVER))] if page.exists() else []


def prepare(
    name: str,
    text: str,
    store: Path,
    streams: Mapping[str, Path],
    folder: Path,
    batch: BatchSize,
    late_binds: bool = True,
    replays: Path | None = None,
) -> Prepared:
    """Compiles a query, with ``late_binds`` or without (for the study ``tunnel``), and cuts the files of its streams into batches.

    With a folder of ``replays``, queries that read the same streams in the same order share the chunks.
    """
    program = compiled(name, text, store, folder, late_binds)
    sources = [ReplaySource(stream, (streams[stream.strip("<>")],)) for stream in program.streams]
    replay = folder / "replay" if replays is None else replays / digest_of(program.streams)
    return Prepared(name, program, cut(sources, replay, batch), folder)


def digest_of(names: Sequence[str]) -> str:
    """A name for a sequence of names that is valid as a folder name."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


_PROGRAMS: SharedCache[tuple[str, str, Path, Path, bool], CompiledProgram] = SharedCache(64)


def compiled(name: str, text: str, store: Path, folder: Path, late_binds: bool = True) -> CompiledProgram:
    """A query compiled over a store into its own folder; cached per process while the folder exists."""

    def make() -> CompiledProgram:
        query = parse(text)
        meant = query_semantics(query)
        folder.mkdir(parents=True)
        compiler = Compiler(query, str(store), folder, meant.report, meant.duplicates == "set", late_binds=late_binds)
        return compiler.compile(name, meant.operator)

    key = (name, text, store, folder, late_binds)
    if not folder.is_dir():
        _PROGRAMS.pop(key, None)
    return cached(_PROGRAMS, key, make)


def write_elements(file: Path, elements: Iterable[Element]) -> None:
    """Writes a stream as NDJSON; the triples of an element are rows of one graph."""
    with file.open("w", encoding="utf-8") as out:
        for number, element in enumerate(elements):
            graph = element.graph or f"<urn:element:{number}>"
            for s, p, o in element.triples:
                out.write(json.dumps({"s": s, "p": p, "o": o, "t": element.t, "g": graph}, ensure_ascii=False) + "\n")


def check_same(runs: Sequence[Ran]) -> None:
    """RunError unless all runs have equal answers; no measurements are reported before."""
    for other in runs[1:]:
        if other.digest != runs[0].digest:
            raise RunError(
                f"{other.name} gives other answers ({other.answers}) than {runs[0].name} ({runs[0].answers}): this is a bug"
            )


def joins_of(delta: Delta) -> list[OperatorRecord]:
    """The operators of a delta source without the scans of the delta (for a split delta, of its parts), which every plan has."""
    return [operator for operator in delta.operators if (operator.op, operator.relation) != ("scan", delta.source)]


def rows_of(operator: OperatorRecord) -> int:
    """The output rows of an operator, spared by reductions or not; of a multiway join also its candidates, which are its expansion."""
    return (operator.observed or 0) + (operator.candidates or 0)


def rows_produced(records: Iterable[TraceRecord]) -> int:
    """The rows of the operators in some batches, without the scans of deltas: those of their plans, and of plans that were stopped."""
    deltas = [delta for record in records for delta in record.deltas]
    stopped = [replace(delta, operators=plan.operators) for delta in deltas for plan in delta.stopped]
    return sum(rows_of(operator) for delta in (*deltas, *stopped) for operator in joins_of(delta))
