"""``kill -9`` of the driver, the JVM or a Python worker, in turn, at a random moment of a run on Spark.

``CQELS_OPT_KILLS=200 make test TESTS=tests/faults`` does two hundred rounds.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from spark.command import Command, lines, processes
from spark.small_world import CROWDS, write_query, write_world

from cqels_opt.query.parser import parse
from cqels_opt.verify import Options, judge, read_answers

ROUNDS = int(os.environ.get("CQELS_OPT_KILLS", "4"))
ELEMENTS, BATCH = 600, 20
VICTIMS = ("driver", "jvm", "worker")


@pytest.mark.long
def test_runs_survive_the_death_of_any_process(tmp_path: Path) -> None:
    """A worker's death may be survived within the run; else the next start does the rest. The answers are those of the definition."""
    files = write_world(tmp_path / "world", ELEMENTS)
    rng = random.Random(19)
    victims: dict[str, int] = {}
    rounds = left = 0
    run: Path | None = None
    words: list[str] = []
    while rounds < ROUNDS or left:
        if run is None:
            run = tmp_path / f"run-{rounds}"
            run.mkdir()
            own = ["--checkpoint", str(run / "checkpoint"), "--out", str(run / "out.jsonl"), "--trace", str(run / "trace.jsonl")]
            query = write_query(run, CROWDS)
            words = ["run", str(query), *files.words, *own, "--batch", str(BATCH), "--master", "local[2]"]
            left = min(4, max(1, ROUNDS - rounds))
        trace = run / "trace.jsonl"
        command = Command(words)
        killing = left > 0
        if killing:
            target = lines(trace) + rng.randint(0, 4)
            command.until(lambda: lines(trace) >= target)  # noqa: B023
            time.sleep(rng.random() * 0.3)  # a random moment of the batch, and not its end
            found: dict[str, list[int]] = {}
            for number, what in processes(command.process.pid):
                found.setdefault(what, []).append(number)
            if found:
                what = next(v for v in (VICTIMS[rounds % len(VICTIMS)], *VICTIMS) if v in found)
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(found[what]), signal.SIGKILL)
                victims[what] = victims.get(what, 0) + 1
            rounds, left = rounds + 1, left - 1
        finished = command.finish()
        assert killing or finished.code == 0, finished.err
        assert finished.code in (0, 3, -signal.SIGKILL) and len(finished.err.splitlines()) <= 4, finished.err
        if finished.code == 0:
            verdict = judge(parse(CROWDS), files.inputs(), Options(), read_answers(run / "out.jsonl"))
            assert verdict.equal, verdict.text()
            print(rounds, victims, flush=True)
            run, left = None, 0
        else:
            with suppress(ProcessLookupError):
                os.killpg(command.process.pid, signal.SIGKILL)  # what the dead driver has left
    if run is not None:
        finished = Command(words).finish()
        assert finished.code == 0, finished.err
        verdict = judge(parse(CROWDS), files.inputs(), Options(), read_answers(run / "out.jsonl"))
        assert verdict.equal, verdict.text()
    print(victims)
