"""The scenarios: data, queries, rates and contenders, each declared in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.bench.social import PLACES_GRAPH, START, STEADY, STREAM, Phase, social
from cqels_opt.rdf.static import StaticSource
from cqels_opt.spark.load import load
from cqels_opt.spark.session import SparkSession
from cqels_opt.windows.replay import BatchSize

SECOND = 1000  # milliseconds: a batch
WARM_UP = 3  # batches that do not count, the filling one among them
QUERIES = Path(__file__).resolve().parents[1] / "docs" / "queries"


@dataclass(frozen=True, slots=True)
class World:
    """Data that lie ready: streams, their folder, a loaded store, the size of a batch, and how many batches are warm-up."""

    streams: tuple[tuple[str, Path], ...]
    folder: Path
    store: Path
    batch: BatchSize
    warm_up: int
    description: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """The report's world at a scale.

    The first batch brings as many elements as the largest window, of ``window`` seconds, holds at ``rate`` elements a second, all in one
    second, so that the window is full from then on; each batch after it brings one second of the stream at its rate.
    """

    name: str
    title: str
    queries: Mapping[str, Path]
    contenders: Sequence[str]
    authors: int
    coauthor_pairs: int
    places: int
    rate: int
    counted: int
    seed: int = 1
    phases: Sequence[Phase] = STEADY
    window: int = 30

    def batch(self, quick: bool) -> int:
        """Elements a batch: one second of the stream."""
        return self.rate // 10 if quick else self.rate

    def prepare(self, spark: SparkSession, folder: Path, quick: bool) -> World:
        """Makes and loads the data; ``quick`` is a tenth of everything."""
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
        fill_first(files.stream, filling, rate)
        load(spark, [StaticSource(files.static, None), StaticSource(files.places, PLACES_GRAPH)], folder / "store", durable=False)
        described = (
            f"{self.authors // part:,} authors, {files.coauthor_pairs:,} co-author pairs, {files.triples:,} triples, "
            f"{rate:,} elements a batch, {self.window} s window of {rate * self.window:,}"
        )
        return World(((STREAM, files.stream),), folder, folder / "store", BatchSize(duration=SECOND), WARM_UP, described)


def fill_first(stream: Path, filling: int, rate: int) -> None:
    """Moves the first elements into the first second, and lets the others follow at the stream's rate."""
    table = parquet.read_table(stream)
    number = np.arange(table.num_rows)
    later = START + SECOND + (number - filling) * SECOND // rate
    t = np.where(number < filling, START + number * SECOND // filling, later)
    parquet.write_table(table.set_column(table.schema.get_field_index("t"), "t", pa.array(t, pa.int64())), stream)


_REPORT = {name: QUERIES / f"{name.lower()}.rq" for name in ("Q1", "Q2", "Q3", "Q4")}

_REPORT_SCENARIO = Scenario(
    name="report",
    title="Q1–Q4 of the CQELS report, batches of a second at 5,000 elements/s",
    queries=_REPORT,
    contenders=("adaptive", "static", "spark", "as written", "tuned", "noop"),
    authors=100_000,
    coauthor_pairs=1_000_000,
    places=2_000,
    rate=5_000,
    counted=6,
)

SCENARIOS: dict[str, Scenario] = {
    "report": _REPORT_SCENARIO,
    "report-1000": replace(
        _REPORT_SCENARIO,
        name="report-1000",
        title="Q1–Q4 of the CQELS report, batches of a second at 1,000 elements/s",
        rate=1_000,
    ),
}
