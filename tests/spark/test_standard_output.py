"""Answers on standard output: they come as lines, and a reader that closes the pipe ends the run without an error."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "http://example.org/s"
QUERY = f"SELECT ?x FROM NAMED <{STREAM}> [NOW] AS ?w WHERE {{ GRAPH ?w {{ ?x <http://example.org/at> ?y }} }}"


class Left(io.StringIO):
    """A pipe without a reader."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    row = {"s": "<http://example.org/a>", "p": "<http://example.org/at>", "o": "<http://example.org/b>"}
    (tmp_path / "s.ndjson").write_text("".join(json.dumps({**row, "t": t}) + "\n" for t in (1000, 2000)))
    (tmp_path / "q.rq").write_text(QUERY)
    return RunOptions(tmp_path / "q.rq", streams=((STREAM, tmp_path / "s.ndjson"),))


def test_lines(spark: SparkSession, tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    in_session(spark, options, tmp_path / "state")
    assert [json.loads(line)["time"] for line in out.getvalue().splitlines()] == [1000, 2000]


def test_the_reader_left(spark: SparkSession, tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Left())
    with pytest.raises(BrokenPipeError):  # which the command line treats as success
        in_session(spark, options, tmp_path / "state")
