"""Static stores of increasing size: load rate, size relative to the source, opening time, task memory, and probe cost.

The data are those of :mod:`cqels_opt.bench.papers`. A store is loaded through Spark on all cores of this machine. Probes are
batches of uniformly random papers against the index of ``dc:creator`` on its subject: warm, and cold, that is, reopened with none
of its pages in the operating system's cache. Times of opening and of warm probes are the minimum of several rounds.

A probe is a binary search in the sorted keys, so its cost grows logarithmically while the keys fit the processor's caches, and
with the latency of memory beyond.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import descendants
from cqels_opt.bench.papers import PAPER, papers_for, write_papers
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import CREATOR
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import DEFAULT_GRAPH, Store
from cqels_opt.rdf.ids import encode, encode_one
from cqels_opt.rdf.static import StaticSource
from cqels_opt.spark.load import load
from cqels_opt.spark.session import make_session

SEED = 1
SIZES = (1_000_000, 10_000_000, 30_000_000)
PROBES = 10_000
"""Keys per batch of probes."""
ROUNDS = 15
_SAMPLED_EVERY = 0.5
"""Seconds between samples of the memory of this process's descendants."""


def study(quick: bool) -> dict[str, Any]:
    """All sizes; with ``quick`` only the first one."""
    results = []
    for triples in SIZES[:1] if quick else SIZES:
        with scratch_folder() as scratch:
            results.append(measured(scratch, triples))
    return {"seed": SEED, "probes": PROBES, "results": results}


def measured(folder: Path, triples: int) -> dict[str, Any]:
    """Loads about ``triples`` triples, and measures the store."""
    source = folder / "papers.nt"
    write_papers(source, papers_for(triples), SEED)
    with make_session(None, folder) as spark:
        spark.range(1).collect()  # the first job of a session starts shared services
        with _memory() as peak:
            began = time.perf_counter()
            report = load(spark, [StaticSource(source)], folder / "store")
            seconds = time.perf_counter() - began
    return {
        "triples": report.triples,
        "source_bytes": source.stat().st_size,
        "seconds": seconds,
        "triples_per_second": report.read / seconds,
        "task_bytes": peak(),
        **measured_store(folder / "store", papers_for(triples)),
    }


def measured_store(place: Path, papers: int) -> dict[str, Any]:
    """An existing store: its size, the time to open it, and its probes."""
    opened = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        store = open_store(place)
        opened.append(time.perf_counter() - began)
    cold = _cold_seconds(place, papers)
    relation = store.partition(DEFAULT_GRAPH, encode_one(f"<{CREATOR}>", store.scheme))
    index = relation.index(("s",))
    batches = [_keys(store, papers, number) for number in range(ROUNDS)]
    for batch in batches:
        index.fanout(batch)  # loads the pages
    warm, matches = [], 0
    for batch in batches:
        began = time.perf_counter()
        matches = len(index.lookup(batch)[0])
        warm.append(time.perf_counter() - began)
    return {
        "store_bytes": sum(file.stat().st_size for file in place.rglob("*") if file.is_file()),
        "terms": store.terms,
        "open_seconds": min(opened),
        "keys": len(index.keys),
        "matches": matches,
        "cold_probe_seconds": cold / PROBES,
        "warm_probe_seconds": min(warm) / PROBES,
    }


def _keys(store: Store, papers: int, number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    chosen = np.random.default_rng([SEED, number]).integers(0, papers, PROBES)
    return encode(pa.array([f"<{PAPER}{paper}>" for paper in chosen.tolist()]), store.scheme)


def _cold_seconds(place: Path, papers: int) -> float:
    """The time of one batch on a store without cached pages."""
    for file in place.rglob("*.npy"):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    store = open_store(place)
    keys = _keys(store, papers, ROUNDS)
    index = store.partition(DEFAULT_GRAPH, encode_one(f"<{CREATOR}>", store.scheme)).index(("s",))
    began = time.perf_counter()
    index.lookup(keys)
    return time.perf_counter() - began


@contextmanager
def _memory() -> Iterator[Callable[[], int]]:
    """The peak private memory of a Python worker below this process, without mapped files."""
    done, peak = threading.Event(), 0

    def watch() -> None:
        nonlocal peak
        while not done.wait(_SAMPLED_EVERY):
            peak = max([peak, *map(_anonymous, _workers())])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: peak
    finally:
        done.set()
        watcher.join()


def _workers() -> list[Path]:
    """The Python processes below this process."""
    below = (Path("/proc") / str(child) for child in descendants(os.getpid()))
    return [folder for folder in below if "python" in _text(folder / "cmdline").partition("\0")[0]]


def _anonymous(process: Path) -> int:
    lines = (line.split() for line in _text(process / "smaps_rollup").splitlines() if line.startswith("Anonymous:"))
    return sum(int(line[1]) << 10 for line in lines)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # the process has ended


def show(found: dict[str, Any]) -> None:
    """Prints the table."""
    sizes = numbers("triples", "source", "load", "triples/s", "a task's memory", "store", "of source")
    shown = table(*sizes, *numbers("open", "warm probe", "cold probe"), title="Static stores as they grow")
    for row in found["results"]:
        shown.add_row(
            f"{row['triples']:,}",
            f"{row['source_bytes'] / 1e6:,.0f} MB",
            f"{row['seconds']:,.1f} s",
            f"{row['triples_per_second']:,.0f}",
            f"{row['task_bytes'] / 1e6:,.0f} MB",
            f"{row['store_bytes'] / 1e6:,.0f} MB",
            f"{row['store_bytes'] / row['source_bytes']:.0%}",
            f"{1e3 * row['open_seconds']:.1f} ms",
            f"{1e9 * row['warm_probe_seconds']:,.0f} ns",
            f"{1e9 * row['cold_probe_seconds']:,.0f} ns",
        )
    console().print(shown)
