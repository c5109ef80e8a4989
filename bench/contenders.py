"""What is compared: a contender runs a query over a replay that has been cut, and says how long each batch took.

Times are Spark's own for the whole trigger (``triggerExecution`` of its progress reports), so that no contender's overhead hides.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.commands import in_session
from cqels_opt.options import Batch, RunOptions
from cqels_opt.spark.floor import noop_milliseconds
from cqels_opt.spark.session import SparkSession


@dataclass(frozen=True, slots=True)
class Task:
    """A query and its inputs, and how they are cut into batches."""

    query: Path
    streams: tuple[tuple[str, Path], ...]
    graphs: tuple[tuple[str, Path], ...]
    store: Path
    batch: int  # milliseconds of stream time


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
            batch=Batch(duration=task.batch),
            out=out,
            trace=folder / "trace.jsonl",
        )
        began = time.monotonic()
        done = in_session(spark, options, folder)
        return Timing(done.milliseconds, done.summary.answers, bag_digest(out), time.monotonic() - began, done.settings)

    return run


def floor(spark: SparkSession, task: Task, folder: Path) -> Timing:
    """A batch of the same elements that is written to Spark's ``noop`` sink: what streaming itself costs."""
    began = time.monotonic()
    return Timing(noop_milliseconds(spark, task.streams, task.batch, folder), None, None, time.monotonic() - began)


CONTENDERS: dict[str, Contender] = {
    "adaptive": engine("adaptive"),
    "static": engine("static"),
    "spark": engine("spark"),
    "noop": floor,
}


def bag_digest(path: Path) -> str:
    """A digest of the lines of a file that does not depend on their order."""
    total = 0
    with path.open("rb") as lines:
        for line in lines:
            total = (total + int.from_bytes(hashlib.blake2b(line, digest_size=16).digest())) % (1 << 128)
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
