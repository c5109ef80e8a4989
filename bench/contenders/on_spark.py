"""Contenders on Spark: the engine, and the same queries as Spark jobs that a user would write (:mod:`cqels_opt.bench.rivals`).

Each has its own process and JVM with the same memory, which first runs some batches into ``noop`` (docs/decisions/018). The JVMs of the
engine and of ``noop`` start as those of ``cqels-opt run`` (docs/decisions/043), those of plain jobs with Spark's defaults. Times are those
of the whole trigger (``triggerExecution`` in Spark's progress reports), so they include all overhead of a contender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cqels_opt.bench.answers import answers_of_folders, answers_of_lines
from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.contenders import Answer, Contender, Done, Run, Task, UnsupportedError
from cqels_opt.bench.contenders.engine import phases

if TYPE_CHECKING:
    from cqels_opt.bench.rivals.jobs import Job, StreamingQuery
    from cqels_opt.spark.session import SparkSession

MEMORY = "6g"  # of the JVM, for every contender alike
_WARM: list[str] = []  # folders of earlier sessions in this process, whose JVM is warm


def _session(task: Task, folder: Path, works: bool = True) -> SparkSession:
    """A session in this process's JVM, after a warm-up that ran the task's batches without a query. ``works`` is whether the JVM
    processes rows.
    """
    from cqels_opt.spark.floor import noop_milliseconds
    from cqels_opt.spark.session import SETTINGS, make_session

    SETTINGS["spark.driver.memory"] = MEMORY  # before the JVM starts
    spark = make_session(None, folder, works=works)
    if not _WARM:
        noop_milliseconds(spark, list(task.streams.items()), task.batch, empty_folder(folder / "warm"))
        _WARM.append(str(folder))
    return spark


def _put(milliseconds: Sequence[float], answers: Iterable[Answer], parts: Sequence[Mapping[str, float]] = ()) -> Iterator[Done]:
    """The times that Spark reports per batch. All answers come with the last batch, because the job writes them itself."""
    for number, took in enumerate(milliseconds):
        last = number == len(milliseconds) - 1
        yield Done(answers if last else (), took, parts[number] if number < len(parts) else {})


def engine(task: Task, folder: Path, plan: str) -> Iterator[Done | None]:
    """The engine with one of its plan modes."""
    from cqels_opt.bench.on_spark import run_on_spark

    query = folder / f"{task.query}.rq"
    query.write_text(task.text, encoding="utf-8")
    with _session(task, folder, works=plan == "spark") as spark:
        yield None
        done, records = run_on_spark(spark, query, task.streams.items(), task.batch, folder, store=task.store, plan=plan)
        with (folder / "answers.jsonl").open(encoding="utf-8") as lines:
            yield from _put(done.milliseconds, answers_of_lines(lines), [phases([r]) for r in records])


def noop(task: Task, folder: Path) -> Iterator[Done | None]:
    """The same elements, written to Spark's ``noop`` sink: the cost of streaming alone."""
    from cqels_opt.spark.floor import noop_milliseconds

    with _session(task, folder, works=False) as spark:
        yield None
        yield from _put(noop_milliseconds(spark, list(task.streams.items()), task.batch, empty_folder(folder / "noop")), ())


def rival(task: Task, folder: Path, module: str) -> Iterator[Done | None]:
    """A plain Spark job over the same chunks. Its preparation is not measured."""
    from importlib import import_module

    from cqels_opt.bench.rivals.jobs import PLANNER, Job, settings_kept
    from cqels_opt.spark.stream import chunk_stream, trigger_milliseconds

    name, job_module = task.query.lower(), import_module(f"cqels_opt.bench.rivals.{module}")
    if not (job_module.SQL / f"{name}.sql").is_file() or not _is_report_world(task):
        raise UnsupportedError("Spark jobs are written for Q1 to Q4 over the report's world alone")
    start: Callable[[SparkSession, Job], StreamingQuery] = job_module.start
    with _session(task, folder) as spark:
        yield None
        with settings_kept(spark, PLANNER):
            job = Job(name, chunk_stream(spark, task.replay.chunk_folder), task.static[0].parent, folder)
            query = start(spark, job)
            query.awaitTermination()
            spark.catalog.clearCache()
        yield from _put(trigger_milliseconds(query), answers_of_folders(job.answers, job.standing))


def _is_report_world(task: Task) -> bool:
    static, graphs = ([path.name for path in paths] for paths in (task.static, task.graphs.values()))
    return static == ["static.nt"] and graphs == ["places.nt"]


def _contender(name: str, about: str, run: Run, answers: bool = True) -> Contender:
    return Contender(name, about, run, apart=True, answers=answers, spark=True)


CONTENDERS = (
    _contender("spark-adaptive", "the engine on Spark, as cqels-opt run starts it", partial(engine, plan="adaptive")),
    _contender("spark-static", "the same with a plan chosen once", partial(engine, plan="static")),
    _contender("spark-plan", "--plan spark: our slots and static relations, joined by Spark SQL", partial(engine, plan="spark")),
    _contender("spark-as-written", "the query as SQL in foreachBatch, without tuning", partial(rival, module="as_written")),
    _contender(
        "spark-tuned",
        "the SQL job after tuning: static joins precomputed, analysed and cached; broadcasts; AQE and CBO verified to be on",
        partial(rival, module="tuned"),
    ),
    _contender("noop", "the same batches into Spark's noop sink: the cost of streaming alone", noop, answers=False),
)
