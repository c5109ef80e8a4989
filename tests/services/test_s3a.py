"""The state of an adaptive join on S3, by Hadoop's connector (``make test-s3a``, which fetches its 690 MB)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from services.conftest import S3
from services.s3a_job import BATCHES, WINDOW, rows

#: Where the connector's jars lie; `make test-s3a` sets it.
JARS = "CQELS_OPT_HADOOP_AWS"


def job(*words: str) -> subprocess.CompletedProcess[str]:
    jars = os.environ.get(JARS)
    if not jars:
        pytest.fail(f"{JARS} names no folder of jars: run this test with make test-s3a", pytrace=False)
    environment = {**os.environ, "S3A_CLASS_PATH": f"{jars}/*", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(Path(__file__).with_name("s3a_job.py")), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_a_job_that_is_killed_and_started_again(s3: S3, tmp_path: Path) -> None:
    state = s3.bucket("joins").replace("s3:", "s3a:") + "/state"
    killed = job(str(tmp_path), state, "0", "2")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = job(str(tmp_path), state, "2")
    assert done.returncode == 0, done.stderr
    every = [row for batch in range(BATCHES) for row in rows(batch)]
    expected = sorted(
        [max(t, u), who, other]
        for who, loc, t in every
        for other, there, u in every
        if loc == there and max(t, u) < min(t + 1, u + WINDOW)
    )
    assert sorted(row for batch in range(BATCHES) for row in json.loads((tmp_path / f"{batch}.json").read_text())) == expected
    kept = s3.folder / "joins" / "state"
    assert len([*(kept / "commits").iterdir()]) <= 3, "old commit records are deleted"
    assert len([*(kept / "rows").iterdir()]) < BATCHES, "expired rows are deleted"
