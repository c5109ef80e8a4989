"""What is compared: a contender runs a query over a replay that has been cut, and says how long each batch took.

Times are Spark's own for the whole trigger (``triggerExecution`` of its progress reports), so that no contender's overhead hides.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.bench.rivals import as_written, tuned
from cqels_opt.bench.rivals.jobs import PLANNER, Job, StreamingQuery
from cqels_opt.commands import in_session
from cqels_opt.options import Batch, RunOptions
from cqels_opt.spark.floor import noop_milliseconds
from cqels_opt.spark.session import SparkSession
from cqels_opt.spark.stream import chunk_stream, trigger_milliseconds
from cqels_opt.windows.replay import BatchSize, ReplaySource, cut


@dataclass(frozen=True, slots=True)
class Task:
    """A query and its inputs, and how they are cut into batches. ``world`` is the folder of the static data as files."""

    query: Path
    streams: tuple[tuple[str, Path], ...]
    store: Path
    batch: BatchSize
    world: Path


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds a batch in order; how many answers came, and a digest of them as a bag (None: nothing is answered)."""

    milliseconds: tuple[float, ...]
    answers: int | None
    digest: str | None
    seconds: float
    settings: tuple[tuple[str, str], ...] = ()


Contender = Callable[[SparkSession, Task, Path], Timing]


def engine(plan: str, joins: str = "auto") -> Contender:
    """The engine with one of its plan modes."""

    def run(spark: SparkSession, task: Task, folder: Path) -> Timing:
        out = folder / "answers.jsonl"
        options = RunOptions(
            query=task.query,
            streams=task.streams,
            store=task.store,
            plan=plan,  # type: ignore[arg-type]
            joins=joins,  # type: ignore[arg-type]
            batch=Batch(task.batch.count or None, task.batch.duration or None),
            out=out,
            trace=folder / "trace.jsonl",
        )
        began = time.monotonic()
        done = in_session(spark, options, folder)
        return Timing(done.milliseconds, done.summary.answers, digest_of_answers(out), time.monotonic() - began, done.settings)

    return run


def floor(spark: SparkSession, task: Task, folder: Path) -> Timing:
    """A batch of the same elements that is written to Spark's ``noop`` sink: what streaming itself costs."""
    began = time.monotonic()
    return Timing(noop_milliseconds(spark, task.streams, task.batch, folder), None, None, time.monotonic() - began)


def rival(start: Callable[[SparkSession, Job], StreamingQuery]) -> Contender:
    """A job of Spark's own (:mod:`cqels_opt.bench.rivals`), over the same chunks. Its preparations do not count."""

    def run(spark: SparkSession, task: Task, folder: Path) -> Timing:
        began = time.monotonic()
        plan = cut([ReplaySource(iri, (path,)) for iri, path in task.streams], folder / "replay", task.batch)
        with settings_kept(spark, PLANNER):
            job = Job(task.query.stem, chunk_stream(spark, plan.chunk_folder), task.world, folder)
            query = start(spark, job)
            query.awaitTermination()
            spark.catalog.clearCache()
        answers, digest = digest_of_folders(job.answers)
        return Timing(trigger_milliseconds(query), answers, digest, time.monotonic() - began, tuple(job.effective.items()))

    return run


@contextmanager
def settings_kept(spark: SparkSession, names: Iterable[str]) -> Iterator[None]:
    """The session's settings of these names are afterwards what they were."""
    before = {name: str(spark.conf.get(name)) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


CONTENDERS: dict[str, Contender] = {
    "adaptive": engine("adaptive"),
    "static": engine("static"),
    "spark": engine("spark"),
    "as written": rival(as_written.start),
    "tuned": rival(tuned.start),
    "noop": floor,
}


def digest_of_answers(path: Path) -> str:
    """The digest of the engine's answers, as rivals write them: the time and the value of each variable."""
    with path.open(encoding="utf-8") as lines:
        rows = (json.loads(line) for line in lines)
        return _bag(_row(row["time"], {name: term["value"] for name, term in row["bindings"].items()}) for row in rows)


def digest_of_lines(path: Path) -> str:
    """The digest of the engine's answers as they are written: for runs of the engine next to each other, and many answers."""
    with path.open("rb") as lines:
        return _bag(lines)


def digest_of_folders(answers: Path) -> tuple[int, str]:
    """How many answers there are in the JSON files of a rival, and their digest."""
    count = 0

    def rows() -> Iterator[bytes]:
        nonlocal count
        for file in sorted(answers.glob("batch=*/*.json")):
            with file.open(encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    count += 1
                    yield _row(row.pop("time"), row)

    digest = _bag(rows())
    return count, digest


def _row(time: int, values: Mapping[str, object]) -> bytes:
    return json.dumps([time, {name: str(value) for name, value in values.items()}], sort_keys=True).encode()


def _bag(rows: Iterable[bytes]) -> str:
    total = 0
    for row in rows:
        total = (total + int.from_bytes(hashlib.blake2b(row, digest_size=16).digest())) % (1 << 128)
    return f"{total:032x}"


def empty_folder(path: Path) -> Path:
    """A new folder in place of what was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def median(numbers: Sequence[float]) -> float:
    """The middle of the numbers."""
    ordered = sorted(numbers)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
