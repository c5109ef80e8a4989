"""A query over a stream of a few hundred elements, answered into a folder of Parquet without Spark, in a process that may be killed.

Usage: answer_folder_process.py FOLDER. State, data and the answers (``FOLDER/out``) lie there; a second start continues where the first one
ended.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from local_runs import Cut, Registered, World, register

from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.verify import Element

EX = "http://ex.org/"
QUERY = """PREFIX : <http://ex.org/>
SELECT ?a ?b ?x FROM NAMED :S [NOW] AS ?u FROM NAMED :S [RANGE 1 s] AS ?z
WHERE { GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } }"""
HOW = Cut("10")


def prepared(folder: Path) -> Registered:
    elements = [Element(1000 + 40 * i, ((f"<{EX}p{i * 7 % 23}>", f"<{EX}at>", f"<{EX}x{i * i % 5}>"),)) for i in range(400)]
    return register(QUERY, World({EX + "S": [elements]}), folder / "q")


def started(query: Registered, folder: Path, **given: Any) -> Any:
    return query.driver(HOW, folder / "state", sink=FolderSink(folder / "out"), **given)


def main(folder: Path) -> None:
    query = prepared(folder)
    driver = started(query, folder)
    for number, rows in enumerate(query.chunks(HOW)):
        if number > driver.state.batch:
            driver.batch(number, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
