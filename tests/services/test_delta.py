"""Delta tables as an RDF stream, as a relation with versions, and as a sink that takes a batch once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from services.delta_job import EX, QUERY, people

from cqels_opt.query.parser import parse
from cqels_opt.verify import Element, Inputs, Options, evaluate

#: Where Delta's jars, and a PySpark that they are of, lie; `make test-services` sets them.
SPARK, JARS = "CQELS_OPT_PYSPARK_4_0", "CQELS_OPT_DELTA_JARS"


def job(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.environ[SPARK], str(Path(__file__).resolve().parents[2])]),
        "PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, sorted(Path(os.environ[JARS]).glob('delta-*.jar'))))} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, str(Path(__file__).with_name("delta_job.py")), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for part in folder.glob("*.json") for line in part.read_text().splitlines()]


def test_a_job_over_delta_tables_that_is_killed_and_started_again(tmp_path: Path) -> None:
    filled = job(str(tmp_path), "fill")
    assert filled.returncode == 0, filled.stderr
    killed = job(str(tmp_path), "run", "2")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = job(str(tmp_path), "run")
    assert done.returncode == 0, done.stderr
    elements = [Element(t, ((s, p, o),)) for s, p, o, t in people()]
    expected = evaluate(parse(QUERY), Inputs({f"{EX}S": elements}, [], {}), Options())
    got = Counter((row["time"], row["p"], row["q"]) for row in rows(tmp_path / "met.json"))
    assert got == Counter({(t, *(dict(row)[name] for name in ("p", "q"))): n for (t, _, row), n in expected.items()})
    named = Counter((row["room"], row["name"]) for row in rows(tmp_path / "named.json"))
    assert named == {(0, "Room 0"): 1, (1, "Room 1"): 2, (2, "Room 2"): 2, (4, "Room 4, new"): 2}
