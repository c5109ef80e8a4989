"""The scenarios of the package, one TOML file each (read by :mod:`cqels_opt.bench.declared`), and their common constants."""

from __future__ import annotations

from pathlib import Path

SECOND = 1000  # milliseconds per batch
WARM_UP = 3  # uncounted batches, including the filling one
QUERIES = Path(__file__).resolve().parents[1] / "report_queries"
SHIPPED = Path(__file__).resolve().parent
