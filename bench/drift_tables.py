"""The study of drift in rows as a table, for Markdown and for the HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rows_of(section: Mapping[str, Any]) -> tuple[str, list[str], list[list[str]]]:
    """The description, heads and lines: for each query and workload the rows of each kind of plan, and their ratios."""
    results = section["results"]
    lines = [
        [
            one["query"],
            one["workload"],
            *(f"{rows:,}" for rows in one["rows"].values()),
            *(f"{ratio:.2f}×" for ratio in one["ratios"].values()),
        ]
        for one in results
    ]
    heads = ["query", "workload", *results[0]["rows"], *results[0]["ratios"]]
    size = f"{section['elements']:,} elements in batches of {section['batch']:,}"
    return f"Rows that all operators produce, {size}. They do not depend on the machine.", heads, lines
