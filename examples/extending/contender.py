"""The contender ``pandas``: names of people and of the rooms they enter, two merges per micro-batch."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from cqels_opt.bench.contenders import Contender, Done, Task, UnsupportedError, elements


def run(task: Task, folder: Path) -> Iterator[Done | None]:
    """Read the static data; then yield None when ready for a micro-batch, and Done with its answers."""
    if task.query != "where":
        raise UnsupportedError("it is written for the query where")
    lines = (line for path in (*task.static, *task.graphs.values()) for line in path.open(encoding="utf-8"))
    found = (re.fullmatch(r'(\S+) <\S+name> "(.*)" \.\n', line) for line in lines)
    names = pd.DataFrame([match.groups() for match in found if match], columns=["id", "name"])
    people, rooms = names.rename(columns={"id": "s"}), names.rename(columns={"id": "o", "name": "room"})
    for chunk in task.chunks:
        yield None
        rows = elements(chunk).to_pandas().merge(people, on="s").merge(rooms, on="o")
        yield Done((row.t, {"name": row.name, "locName": row.room}) for row in rows.itertuples(index=False))


CONTENDER = Contender("pandas", "the query where as two merges of pandas", run)
