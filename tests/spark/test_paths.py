"""Random queries over random worlds through Spark and the command line: all batches, plans and join families.

tests/conformance runs thousands of cases without Spark; these few show that Spark neither adds nor loses answers.
``CQELS_OPT_SEED`` selects other cases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from local_runs import write_stream
from random_cases import Case, make

from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.values import parse_batch, parse_report
from cqels_opt.verify import judge, read_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUTS = ["7", "100", "500ms"]
PLANS = ["adaptive", "first", "static", "worst"]
FIRST = int(os.environ.get("CQELS_OPT_SEED", "50000"))
MOST = 45  # elements of a case: a micro-batch takes Spark half a second


@cache
def cases() -> list[tuple[int, Case]]:
    """Cases that the command line can express (their windows are those of the text), not too large."""
    found = ((seed, make(seed)) for seed in count(FIRST))
    small = ((s, c) for s, c in found if not c.replaced and 8 <= elements(c) <= MOST)
    return [case for _, case in zip(range(30), small)]


def elements(case: Case, read: bool = False) -> int:
    """The elements of all streams, or of those that the query reads."""
    streams = {stream for _, stream, _ in case.windows}
    files = (files for name, files in case.world.streams.items() if not read or name.rpartition("/")[2] in streams)
    return sum(len(file) for some in files for file in some)


def with_unit(policy: str) -> str:
    """A policy as the command line takes it: its period has the unit ms."""
    return re.sub(r"(?<=p:)\d+", r"\g<0>ms", policy)


def options(case: Case, folder: Path, batch: str, plan: str, joins: str) -> RunOptions:
    """The case as files, and the options of a run over them."""
    (folder / "q.rq").write_text(case.text, encoding="utf-8")
    streams = []
    for name, files in case.world.streams.items():
        for number, file in enumerate(files):
            path = folder / f"{name.rpartition('/')[2]}{number}.ndjson"
            write_stream(path, file)
            streams.append((name, path))
    return RunOptions(
        folder / "q.rq",
        streams=tuple(streams),
        static=(statements(folder / "static.nt", case.world.default),),
        graphs=tuple((g, statements(folder / f"{g.rpartition('/')[2]}.nt", triples)) for g, triples in case.world.graphs.items()),
        report=dict(
            parse_report(f"{name}={with_unit(p)}" if name else with_unit(p)) for name, p in case.settings.policies.items()
        ),
        output_operator=case.settings.operator,  # type: ignore[arg-type]
        t0=case.settings.t0,
        lateness=case.settings.lateness,
        drain=case.settings.drain,
        batch=parse_batch(batch),
        plan=plan,  # type: ignore[arg-type]
        joins=joins,  # type: ignore[arg-type]
        out=folder / "out.jsonl",
    )


def statements(path: Path, triples: Sequence[tuple[str, str, str]]) -> Path:
    path.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in triples), encoding="utf-8")
    return path


def check(spark: SparkSession, case: Case, folder: Path, batch: str, plan: str, joins: str = "auto") -> None:
    asked = options(case, folder, batch, plan, joins)
    jobs: list[int] = []
    in_session(spark, asked, folder / "state", lambda records: jobs.extend(r.jobs for r in records))
    verdict = judge(
        case.query(), case.world.inputs(case.settings.lateness), case.settings.options, read_answers(folder / "out.jsonl")
    )
    assert verdict.equal, f"{verdict.text()}\n{case}"
    assert jobs and (joins == "spark" or plan == "spark" or max(jobs) <= 3)


@pytest.mark.long
@pytest.mark.parametrize("number", range(12))
def test_a_random_query(number: int, spark: SparkSession, tmp_path: Path) -> None:
    """Every cut with every plan, twice."""
    _, case = cases()[number]
    check(spark, case, tmp_path, CUTS[number % 3], PLANS[number // 3 % 4])


@pytest.mark.long
@pytest.mark.parametrize("plan", PLANS)
def test_an_element_a_batch(plan: str, spark: SparkSession, tmp_path: Path) -> None:
    """The smallest cases whose query reads elements, with one micro-batch per element."""
    small = sorted((found for found in cases() if elements(found[1], read=True)), key=lambda found: elements(found[1]))
    check(spark, small[PLANS.index(plan)][1], tmp_path, "1", plan)


@pytest.mark.long
@pytest.mark.parametrize(("number", "plan", "joins"), [(24, "adaptive", "spark"), (25, "worst", "spark"), (26, "spark", "auto")])
def test_spark_joins(number: int, plan: str, joins: str, spark: SparkSession, tmp_path: Path) -> None:
    """More of them in test_joins.py."""
    check(spark, cases()[number][1], tmp_path, "7", plan, joins)
