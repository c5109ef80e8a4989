"""The report's world on Spark, for the studies of latency, throughput and profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.bench.scenarios import QUERIES, SECOND, WARM_UP
from cqels_opt.bench.social import STEADY, STREAM, Phase, social
from cqels_opt.spark.load import load
from cqels_opt.spark.session import SparkSession
from cqels_opt.windows.batch_size import BatchSize


@dataclass(frozen=True, slots=True)
class World:
    """Prepared data: streams, their folder, a loaded store, the batch size, and the number of warm-up batches."""

    streams: tuple[tuple[str, Path], ...]
    folder: Path
    store: Path
    batch: BatchSize
    warm_up: int
    description: str


@dataclass(frozen=True, slots=True)
class ReportWorld:
    """The report's world at a scale.

    The first batch has the elements of ``window`` seconds at ``rate`` elements per second, so that the largest window, which is that
    long, is full afterwards, and as many elements leave it as enter it; each later batch has one second of the stream.
    """

    queries: Mapping[str, Path]
    authors: int
    coauthor_pairs: int
    places: int
    rate: int
    counted: int
    seed: int = 1
    phases: Sequence[Phase] = STEADY
    window: int = 30

    def batch(self, quick: bool) -> int:
        """Elements per batch: one second of the stream."""
        return self.rate // 10 if quick else self.rate

    def prepare(self, spark: SparkSession, folder: Path, quick: bool) -> World:
        """Generates and loads the data; ``quick`` is a tenth of everything."""
        part = 10 if quick else 1
        rate = self.batch(quick)
        filling, running = rate * self.window, rate * (self.counted + WARM_UP - 1)
        files = social(
            folder,
            seed=self.seed,
            authors=self.authors // part,
            papers=self.authors // part,
            coauthor_pairs=self.coauthor_pairs // part,
            places=max(2, self.places // part),
            elements=filling + running,
            rate=float(rate),
            phases=self.phases,
            stream_format="parquet",
        )
        load(spark, files.sources, folder / "store", durable=False)
        described = (
            f"{self.authors // part:,} authors, {files.coauthor_pairs:,} co-author pairs, {files.triples:,} triples, "
            f"{rate:,} elements per batch, {self.window} s window of {rate * self.window:,}"
        )
        batch = BatchSize(duration=SECOND, first=self.window * SECOND)
        return World(((STREAM, files.stream),), folder, folder / "store", batch, WARM_UP, described)


REPORT = ReportWorld(
    queries={name: QUERIES / f"{name.lower()}.rq" for name in ("Q1", "Q2", "Q3", "Q4")},
    authors=100_000,
    coauthor_pairs=1_000_000,
    places=2_000,
    rate=5_000,
    counted=6,
)
