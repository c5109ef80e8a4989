"""PySpark's daemon, which forks workers, with PySpark imported from the installed package.

Spark puts a ZIP file of PySpark first on the path of its Python processes. Python compiles what it imports from there in each process,
half a second for the daemon, and does not keep the bytecode. The package that the file belongs to has the same modules.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def without_archives(path: list[str], spark: Path) -> list[str]:
    """A module path without the ZIP files of the package in a folder."""
    return [place for place in path if not (place.endswith(".zip") and Path(place).parent == spark / "python" / "lib")]


def _prefer_package() -> None:
    archived = [place for place in sys.path if Path(place).name == "pyspark.zip"]
    for archive in archived:
        before = sys.path[:]
        spark = Path(archive).parents[2]
        sys.path[:] = without_archives(before, spark)
        found = find_spec("pyspark")
        if found is None or found.origin is None or Path(found.origin).parent != spark or find_spec("py4j") is None:
            sys.path[:] = before  # a Spark that is not installed as a package


if __name__ == "__main__":
    _prefer_package()
    from pyspark.daemon import manager

    manager()
