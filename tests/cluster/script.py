"""The scripts ``on_a_cluster.py`` and ``join_on_a_cluster.py`` as processes, and what they left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("on_a_cluster.py")
JOIN = Path(__file__).with_name("join_on_a_cluster.py")


@dataclass(frozen=True)
class Done:
    """What a run said, and the files that it left."""

    said: dict[str, Any]
    folder: Path

    @property
    def answers(self) -> list[str]:
        return sorted((self.folder / "answers.jsonl").read_text(encoding="utf-8").splitlines())

    @property
    def jobs(self) -> list[int]:
        return [json.loads(line)["jobs"] for line in (self.folder / "trace.jsonl").read_text(encoding="utf-8").splitlines()]


def run(folder: Path, world: Path, master: str, *fates: str) -> Done:
    """Runs the script to its end. Over a folder that is there it continues where the last one stopped."""
    done = process(folder, world, master, *fates)
    assert done.returncode == 0, done.stderr
    return Done(json.loads(done.stdout.splitlines()[-1]), folder)


def process(folder: Path, world: Path, master: str, *fates: str) -> subprocess.CompletedProcess[str]:
    """Runs the script, which may be killed."""
    folder.mkdir(exist_ok=True)
    return called(SCRIPT, str(folder), str(world), master, *fates)


def joined(folder: Path, master: str, doomed: int) -> dict[str, Any]:
    """Runs the script of the join, whose executor is killed in a batch; what it said."""
    folder.mkdir()
    done = called(JOIN, str(folder), master, str(doomed))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(said, dict)
    return said


def called(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A script with the interpreter of these tests, also on the executors."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment["JAVA_TOOL_OPTIONS"] = environment["SPARK_SUBMIT_OPTS"]  # for executors, where they are below this process
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
