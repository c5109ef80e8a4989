"""Faults of the driver's disk during a run on Spark: one sentence, exit code 2, and exact answers after the next start.

``CQELS_OPT_FAULTS_ON_SPARK=12 make test TESTS=tests/faults`` runs more. Kills on Spark are real ones (``test_killed_processes.py``).
"""

from __future__ import annotations

import os
import random
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults.faulty_disk import FaultyDisk, Kind, random_fault
from spark.small_world import CROWDS, write_query, write_world

from cqels_opt.cli import commands
from cqels_opt.cli.main import main
from cqels_opt.query.parser import parse
from cqels_opt.storage import checksum
from cqels_opt.verify import Options, judge, read_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("CQELS_OPT_FAULTS_ON_SPARK", "3"))
KINDS: tuple[Kind, ...] = ("fail", "tear")


@pytest.fixture
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "open_session", lambda *_: nullcontext(spark))


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("seed", range(CASES))
def test_answers_after_faults_on_spark(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    files, query = write_world(tmp_path / "world", 120), write_query(tmp_path, CROWDS)
    run = tmp_path / "run"
    own = ["--checkpoint", str(run / "checkpoint"), "--out", str(run / "out.jsonl"), "--trace", str(run / "trace.jsonl")]
    words = ["run", str(query), *files.words, *own, "--batch", "40", "--master", "local[2]"]
    run.mkdir()
    disk, failed = FaultyDisk(run, rng), 0
    with disk.installed(monkeypatch):
        for _ in range(4):
            disk.set(random_fault(rng.choice(KINDS), rng))
            code = main(words)
            said = capsys.readouterr().err.splitlines()
            assert code in (0, 2), said
            if code == 2:
                failed += 1
                assert len(said) == 1 and "injected at" in said[0], said
            checksum.VERIFIED.clear()
        disk.set(None)
        assert main(words) == 0
    verdict = judge(parse(CROWDS), files.inputs(), Options(), read_answers(run / "out.jsonl"))
    assert verdict.equal, verdict.text()
    print(f"seed {seed}: {failed} of 4 starts failed")
