"""DuckDB in memory, for the contenders that keep tables in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cqels_opt.errors import InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connected(folder: Path) -> DuckDBPyConnection:
    """An empty database in memory, whose temporary files are in a folder. InputError if DuckDB is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise InputError("contenders that keep tables in DuckDB need it: pip install 'cqels-opt[bench]'") from error
    connection = duckdb.connect(config={"temp_directory": str(folder / "duckdb")})
    connection.execute("SET enable_progress_bar = false")
    return connection
