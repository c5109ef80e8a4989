"""A leak test over thousands of small batches: memory and objects of the driver, its containers and caches, files on disk.

The stream is periodic, so the content of windows is constant, and any growth from the first half to the second is a leak. It runs
without Spark in this process, then through Spark, where the memory is that of three processes: the driver's Python, its JVM after
a garbage collection, and the workers.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import descendants
from cqels_opt.bench.local import load, prepare
from cqels_opt.bench.on_spark import run_on_spark
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.state import window_state, worker_cache
from cqels_opt.trace.progress import Watcher
from cqels_opt.trace.records import TraceRecord
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.batch_size import BatchSize

EX = "http://example.org/"
STREAM = f"{EX}stream"
PEOPLE, PLACES, EVERY = 40, 8, 100  # one element per 100 ms
BATCH = 10
SAMPLES = 20

QUERY = f"""
PREFIX : <{EX}>
SELECT ?a ?b ?name
FROM NAMED <{STREAM}> [NOW] AS ?now
FROM NAMED <{STREAM}> [RANGE 10s] AS ?then
WHERE {{
  GRAPH ?now {{?a :at ?x}}
  GRAPH ?then {{?b :at ?x}}
  ?a :knows ?b.
  ?x :name ?name.
}}
"""

Sample = dict[str, int]


@dataclass(frozen=True, slots=True)
class World:
    """The files of the study."""

    static: Path
    stream: Path
    query: Path


def write(folder: Path, batches: int) -> World:
    """People in turn at places in turn, with a period of ``PEOPLE * PLACES`` elements."""
    folder.mkdir(parents=True, exist_ok=True)
    world = World(folder / "static.nt", folder / "stream.ndjson", folder / "q.rq")
    names = [f'<{EX}x{i}> <{EX}name> "Room {i}" .\n' for i in range(PLACES)]
    knows = [f"<{EX}p{i}> <{EX}knows> <{EX}p{(i * k + 1) % PEOPLE}> .\n" for i in range(PEOPLE) for k in (1, 3, 7)]
    world.static.write_text("".join([*names, *knows]), encoding="utf-8")
    world.query.write_text(QUERY, encoding="utf-8")
    with world.stream.open("w", encoding="utf-8") as file:
        for i in range(batches * BATCH):
            place = (i // PEOPLE + i) % PLACES
            row = {"s": f"<{EX}p{i % PEOPLE}>", "p": f"<{EX}at>", "o": f"<{EX}x{place}>", "t": 1_000_000 + EVERY * i}
            file.write(json.dumps(row) + "\n")
    return world


# ------------------------------------------------------------------ measurements
def containers(driver: Driver) -> Sample:
    """The sizes of the driver's containers and, if it runs tasks itself, of their caches; and the files of its folder."""
    folder = driver.folder
    return {
        "files of the state": sum(1 for path in folder.rglob("*") if path.is_file()),
        "files that count": len(driver.state.files),
        "bytes of the commit record": max(path.stat().st_size for path in (folder / "commits").glob("[0-9]*.json")),
        "times": sum(len(line.times) for line in driver.ingest_state.times.values()),
        "counts that wait": sum(len(waiting) for waiting in driver.ingest_state.pending.values()),
        "files to be deleted": sum(len(paths) for _, paths in driver.scheduled_deletions),
        "window contents": len(window_state._CONTENTS),
        "relations": len(worker_cache._RELATIONS),
        "join sizes": len(worker_cache._JOIN_SIZES),
        "pages of terms": len(worker_cache._PAGES),
    }


def resident(process: int) -> int:
    """The resident memory of a process in bytes; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------ the runs
def alone(folder: Path, batches: int, samples: int = SAMPLES) -> list[Sample]:
    """Runs without Spark; takes samples, the first one after the windows are full."""
    world = write(folder / "world", batches)
    store = load(folder / "store", [StaticSource(world.static)])
    query = prepare("soak", QUERY, store, {STREAM: world.stream}, folder / "query", BatchSize(count=BATCH))
    driver = query.driver(folder / "state", FileSink(folder / "answers.jsonl"), TraceFile(folder / "trace.jsonl"))
    found = []
    for number, rows in enumerate(query.chunks()):
        driver.batch(number, rows)
        if (number + 1) % (batches // samples) == 0:
            gc.collect()
            sizes = {"batch": number + 1, "resident": resident(os.getpid()), "objects": len(gc.get_objects())}
            found.append(sizes | containers(driver))
    return found


def on_spark(spark: SparkSession, folder: Path, batches: int, samples: int = SAMPLES) -> list[Sample]:
    """Runs through Spark: the memory of its processes, and the files of the checkpoint."""
    world = write(folder / "world", batches)
    found: list[Sample] = []
    jvm: Any = spark._jvm
    own, java = os.getpid(), int(jvm.java.lang.ProcessHandle.current().pid())

    def watch(records: Sequence[TraceRecord]) -> None:
        number = records[0].batch + 1
        if number % (batches // samples) == 0:
            gc.collect()
            jvm.java.lang.System.gc()
            runtime = jvm.java.lang.Runtime.getRuntime()
            workers = [process for process in descendants(own) if process != java]
            files = [path for path in (folder / "state").rglob("*") if path.is_file()]
            replayed = sum("replay" in path.parts for path in files)  # the chunks, which existed before
            sizes = {
                "resident": resident(own),
                "objects": len(gc.get_objects()),
                "heap of the JVM": int(runtime.totalMemory() - runtime.freeMemory()),
                "resident, JVM": resident(java),
                "resident, workers": sum(map(resident, workers)),
                "processes": len(workers),
                "files of the checkpoint": len(files) - replayed,
            }
            found.append({"batch": number, **sizes})

    run(spark, folder, world, BATCH, watch)
    return found


def run(spark: SparkSession, folder: Path, world: World, size: int, watch: Watcher) -> None:
    """Runs the query through Spark over a checkpoint."""
    state, batch, streams = folder / "state", BatchSize(count=size), [(STREAM, world.stream)]
    state.mkdir(parents=True)
    static = (world.static,)
    run_on_spark(spark, world.query, streams, batch, folder, state.absolute(), watch, static=static, checkpoint=state)


def study(quick: bool) -> dict[str, Any]:
    """Both runs: samples, and the growth from the first half to the second."""
    with scratch_folder("soak") as folder:
        found = {"without Spark": alone(folder / "alone", 400 if quick else 10_000)}
        with make_session("local[2]", folder) as spark:
            found["on Spark"] = on_spark(spark, folder / "spark", 60 if quick else 1_500)
    return {"batch": BATCH, "samples": found, "growth": {name: growth(samples) for name, samples in found.items()}}


def growth(samples: Sequence[Sample]) -> dict[str, float]:
    """The maximum of the second half over that of the first, without its first quarter, in which windows and caches fill."""
    first, second = samples[len(samples) // 8 : len(samples) // 2], samples[len(samples) // 2 :]
    names = [name for name in samples[0] if name != "batch"]
    return {name: max(s[name] for s in second) / max(1, *(s[name] for s in first)) for name in names}


def show(found: Mapping[str, Any]) -> None:
    """Prints one table per run."""
    for name, samples in found["samples"].items():
        places = [samples[len(samples) // 8], samples[len(samples) // 2], samples[-1]]
        heads = numbers(*(f"after {sample['batch']:,}" for sample in places), "second half / first")
        shown = table("", *heads, title=f"{samples[-1]['batch']:,} batches of {found['batch']} elements, {name}")
        for what, share in found["growth"][name].items():
            shown.add_row(what, *(f"{sample[what]:,}" for sample in places), f"{share:.3f}")
        console().print(shown)
