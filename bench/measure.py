"""Contenders alternate on one task, batch by batch; their answers are compared before any times are reported."""

from __future__ import annotations

import gc
import math
import pickle
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from cqels_opt.bench import apart
from cqels_opt.bench.answers import Bag
from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.contenders import Contender, Done, Given, StoppedError, Task, UnsupportedError, find
from cqels_opt.errors import RunError


@dataclass(slots=True)
class Ran:
    """The result of a contender on a task: milliseconds and phases of each batch, its answers, and the total seconds.

    ``why`` is the reason if it did not finish; then ``upto`` is the time up to which its answers are complete (None: it has
    none).
    """

    contender: str
    milliseconds: list[float] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)
    bag: Bag = field(default_factory=Bag)
    prepared: float = 0.0
    seconds: float = 0.0
    why: str | None = None
    upto: int | None = None
    answers: bool = True

    @property
    def whole(self) -> bool:
        """Whether it finished."""
        return self.why is None

    def take(self, done: Done, took: float) -> None:
        """Adds a batch with the milliseconds of the harness's clock."""
        self.milliseconds.append(took if done.milliseconds is None else done.milliseconds)
        self.phases.append(dict(done.phases))
        self.bag.add(done.answers)


def spans(task: Task) -> list[NDArray[np.int64]]:
    """The times of each micro-batch's elements."""
    return [parquet.read_table(chunk, columns=["t"]).column("t").to_numpy() for chunk in task.chunks]


def final_times(task: Task) -> list[int]:
    """The time up to which answers are final after each micro-batch: before the latest time that every stream has reached
    (-1: no answers are)."""
    reached: dict[int, int] = {}
    found = []
    for chunk in task.chunks:
        rows = parquet.read_table(chunk, columns=["stream", "t"])
        for row in rows.group_by("stream").aggregate([("t", "max")]).to_pylist():
            reached[row["stream"]] = max(row["t_max"], reached.get(row["stream"], row["t_max"]))
        found.append(min(reached.values()) - 1 if len(reached) == len(task.stream_names) else -1)
    return found


def order(names: Iterable[str], number: int, turn: int = 0) -> list[str]:
    """The order of contenders in a micro-batch: random, from its number and that of the pass.

    If it only rotated, each contender would always run after the same one, with the memory caches as that one leaves them.
    """
    every = list(names)
    return random.Random(f"{turn} {number}").sample(every, len(every))


def in_turns(contenders: Sequence[Contender], task: Task, folder: Path, limit: float, turn: int = 0) -> list[Ran]:
    """One pass over the task, in another order for each batch; a contender that exceeds ``limit`` seconds in total is stopped."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # no collection of garbage in a contender's turn traverses what the harness and earlier passes hold
    runs = {c.name: Ran(c.name, answers=c.answers) for c in contenders}
    live = {c.name: c.run(task, empty_folder(folder / c.name)) for c in contenders}
    finals = final_times(task)
    for number in range(len(finals)):
        for name in order(live, number, turn):
            run, began = runs[name], time.perf_counter()
            try:
                done, took = _next(live[name])
                run.seconds += time.perf_counter() - began
                run.take(done, took)
                if not number:
                    run.prepared = run.seconds - took / 1000
                if done.stopped is not None:
                    raise done.stopped
            except StoppedError as error:
                run.why, run.upto = str(error), error.upto
                _close(live.pop(name))
                continue
            except StopIteration:
                raise RunError(f"{name} ended after {number} of {len(finals)} micro-batches") from None
            except Exception as error:  # noqa: BLE001 - a failing rival is reported, the others continue
                run.why = _reason(error)
                del live[name]
                continue
            if run.seconds > limit and number < len(finals) - 1:
                run.why = f"stopped after {number + 1} of {len(finals)} batches: over {limit:g} s"
                run.upto = finals[number]
                _close(live.pop(name))
    for name, generator in live.items():
        try:
            more = any(done is not None for done in generator)
        except Exception as error:  # noqa: BLE001 - its clean-up fails
            runs[name].why, more = _reason(error), False
        if more:
            raise RunError("a contender gives more than one result for a micro-batch")
    return list(runs.values())


def _reason(error: Exception) -> str:
    """Why a contender did not finish."""
    return str(error) if isinstance(error, UnsupportedError) else f"failed: {type(error).__name__}: {error}"


def _close(run: Iterator[Done | None]) -> None:
    """Ends the run of a contender that was stopped, which already has a reason."""
    with suppress(Exception):
        run.close()  # type: ignore[attr-defined]


def _next(run: Iterator[Done | None]) -> tuple[Done, float]:
    """The result of the next batch, and the milliseconds since the contender was ready."""
    began = time.perf_counter()
    while (found := next(run)) is None:
        began = time.perf_counter()
    return found, 1000 * (time.perf_counter() - began)


def by_itself(contender: Contender, more: Sequence[Given], tasks: Sequence[Task], folder: Path) -> list[Ran]:
    """A contender in a separate process, over several tasks. If the process ends, another one continues with the next task."""
    place = empty_folder(folder / contender.name)
    found: list[Ran] = []
    while len(found) < len(tasks):
        failure = None
        try:
            apart.wait(apart.start(_drain, contender.name, list(more), list(tasks), place, len(found)))
        except RunError as error:  # its JVM may run out of memory
            failure = Ran(contender.name, why=str(error), answers=contender.answers)
        while (kept := place / f"{len(found)}.pickle").exists():
            found.append(pickle.loads(kept.read_bytes()))
        if failure is not None and len(found) < len(tasks):
            found.append(failure)  # for the current task; another process runs the others
    return found


def _drain(name: str, more: list[Given], tasks: list[Task], folder: Path, first: int) -> None:
    """Runs one contender in this process from a task onwards, and writes its results."""
    (contender,) = (c for c in find((name,), more) if c.name == name)
    for number, task in list(enumerate(tasks))[first:]:
        (run,) = in_turns([contender], task, folder / f"run-{number}", math.inf)
        (folder / f"{number}.tmp").write_bytes(pickle.dumps(run))
        (folder / f"{number}.tmp").rename(folder / f"{number}.pickle")


def check(query: str, runs: Sequence[Ran]) -> None:
    """RunError if answers differ from those of the first contender that finished; unfinished ones are compared in part."""
    answering = [run for run in runs if run.answers and (run.whole or run.upto is not None)]
    base = next((run for run in answering if run.whole), None)
    if base is None:
        raise RunError(f"{query}: no contender came to the end: " + "; ".join(f"{run.contender}: {run.why}" for run in runs))
    for run in answering:
        if run is not base and (differs := run.bag.difference(base.bag, run.upto)) is not None:
            raise RunError(f"{query}: {run.contender} gives other answers than {base.contender}: {differs}")
