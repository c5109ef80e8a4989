"""The static data of the report's world as Parquet tables of strings, as somebody who works with Spark alone would keep them."""

from __future__ import annotations

from pathlib import Path

from cqels_opt.bench.social import CREATOR, NAME, PLACE_NAME, REFERENCES
from cqels_opt.spark.session import SparkSession

TRIPLES = "triples"
_LINE = "^([^ ]+) ([^ ]+) (.*) [.]$"  # without backslashes, which Spark's SQL takes for its own

VIEWS = {
    "names": f"SELECT s AS person, trim(BOTH '\"' FROM o) AS name FROM {TRIPLES} WHERE p = '<{NAME}>'",
    "places": f"SELECT s AS loc, trim(BOTH '\"' FROM o) AS name FROM {TRIPLES} WHERE p = '<{PLACE_NAME}>'",
    "creators": f"SELECT s, o FROM {TRIPLES} WHERE p = '<{CREATOR}>'",  # people and papers, in both directions (SEMANTICS §6)
    "citations": f"SELECT s AS citing, o AS cited FROM {TRIPLES} WHERE p = '<{REFERENCES}>'",
}
"""The relations of the queries, each by its predicate."""


def triples(spark: SparkSession, world: Path) -> Path:
    """The folder of all static triples as Parquet, made when it is first asked for."""
    folder = world / "rivals" / TRIPLES
    if not (folder / "_SUCCESS").exists():
        lines = spark.read.text([str(world / "static.nt"), str(world / "places.nt")])
        parts = [f"regexp_extract(value, '{_LINE}', {i + 1}) AS {name}" for i, name in enumerate("spo")]
        lines.selectExpr(*parts).write.mode("overwrite").parquet(str(folder))
    return folder
