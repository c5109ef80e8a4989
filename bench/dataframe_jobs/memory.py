"""Large rows in a small heap: a static table of 650 MB, a large batch, and 1 GB for the JVM."""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, Contender, Job, in_sql, names_of, write_stream, write_table
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

SEED = 5
STATIC, ROWS, BATCHES = 500_000, 600_000, 2
BYTES = 975  # 1,300 characters in base64
CHUNK = 25_000
COLUMNS = ("views.number AS number", "pages.id AS id", "pages.text AS text")
QUERY = f"SELECT {', '.join(COLUMNS)} FROM views JOIN pages ON views.page = pages.id"


def make(folder: Path, quick: bool, given: Path | None) -> str:
    """Writes the pages, whose text does not compress, and the views; a twentieth if quick."""
    static, rows = (STATIC // 20, ROWS // 20) if quick else (STATIC, ROWS)
    random = np.random.default_rng(SEED)
    numbers = np.arange(rows * BATCHES)
    views = pd.DataFrame({"number": numbers, "page": random.integers(0, static, len(numbers))})
    write_stream(folder / "stream", views, rows, BATCHES)
    for first in range(0, static, CHUNK):
        ids = np.arange(first, min(first + CHUNK, static))
        texts = [base64.b64encode(random.bytes(BYTES)).decode() for _ in ids]
        write_table(folder / "pages" / f"{first:06d}.parquet", pd.DataFrame({"id": ids, "text": texts}))
    return f"{static:,} static rows of 1.3 kB, {BATCHES} batches of {rows:,} rows, a heap of {JOB.memory}"


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """The pages, not cached: they do not fit."""
    pages = spark.read.parquet(str(data / "pages"))
    pages.createOrReplaceTempView("pages")
    return {"pages": pages}


def _adaptive(case: Case) -> Batch:
    join = AdaptiveJoin(case.spark).relation("views").relation("pages", case.tables["pages"])
    return join.on("views.page = pages.id").select(*COLUMNS).batch(then=case.sink)


JOB = Job(
    "memory",
    "Large static rows in a small heap",
    make,
    tables,
    {"adaptive": Contender(_adaptive), "plain": Contender(partial(in_sql, view="views", query=QUERY))},
    names_of(COLUMNS),
    base="plain",
    warm_up=0,
    memory="1g",
    limit=900.0,
)
