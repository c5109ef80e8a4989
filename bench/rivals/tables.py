"""The static data of the report's world as Parquet tables of strings, as a Spark user would store them."""

from __future__ import annotations

import re
from pathlib import Path

from cqels_opt.spark.session import SparkSession

TRIPLES = "triples"
_LINE = "^([^ ]+) ([^ ]+) (.*) [.]$"  # without backslashes, which Spark SQL would interpret

VIEWS = dict(
    re.findall(
        rf"VIEW (\w+) AS (SELECT [^;]*FROM {TRIPLES}[^;]*);",
        (Path(__file__).parent / "as_written" / "views.sql").read_text("utf-8"),
    )
)
"""The relations of the queries as SELECTs, one per predicate; the plain SQL uses them as views."""


def triples(spark: SparkSession, world: Path) -> Path:
    """The folder of all static triples as Parquet, created on first use."""
    folder = world / "rivals" / TRIPLES
    if not (folder / "_SUCCESS").exists():
        lines = spark.read.text([str(world / "static.nt"), str(world / "places.nt")])
        parts = [f"regexp_extract(value, '{_LINE}', {i + 1}) AS {name}" for i, name in enumerate("spo")]
        lines.selectExpr(*parts).write.mode("overwrite").parquet(str(folder))
    return folder
