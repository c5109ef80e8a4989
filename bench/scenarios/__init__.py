"""The scenarios that come with the project, a TOML file each (:mod:`cqels_opt.bench.declared` reads them), and what they share."""

from __future__ import annotations

from pathlib import Path

SECOND = 1000  # milliseconds: a batch
WARM_UP = 3  # batches that do not count, the filling one among them
QUERIES = Path(__file__).resolve().parents[1] / "report_queries"
SHIPPED = Path(__file__).resolve().parent
