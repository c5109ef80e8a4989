"""Tables of Delta and Iceberg that change while a job joins with them: their keys are counted once per version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from services.test_delta import JARS, SPARK
from services.versions_job import AFTER, BEFORE, ROWS

#: Where the jars of each format lie, and how they are named; `make test-services` sets the variables.
FORMATS = {"delta": (JARS, "delta-*.jar"), "iceberg": ("CQELS_OPT_ICEBERG_JARS", "iceberg-*.jar")}


@pytest.mark.parametrize("format", FORMATS)
def test_counts_follow_the_versions_of_a_table(format: str, tmp_path: Path) -> None:
    variable, jars = FORMATS[format]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.environ[SPARK], str(Path(__file__).resolve().parents[2])]),
        "PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, sorted(Path(os.environ[variable]).glob(jars))))} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, str(Path(__file__).with_name("versions_job.py")), format, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["distinct"] == [BEFORE, BEFORE, AFTER]
    assert found["in_windows"] == [BEFORE, BEFORE, AFTER]
    # The five rows of each micro-batch meet all rows of their rooms, in the version of the table that is current then.
    assert found["answers"] == [5 * ROWS // BEFORE, 5 * ROWS // BEFORE, 5 * ROWS // AFTER]
