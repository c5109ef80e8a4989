"""Tasks for contenders in tests: a query over elements and static triples, cut into micro-batches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from local_runs import Triple, write_stream

from cqels_opt.bench.arena import WORKLOADS
from cqels_opt.bench.comparing import Worlds
from cqels_opt.bench.contenders import Task
from cqels_opt.bench.declared import read
from cqels_opt.bench.local import load
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut


def task(
    folder: Path, text: str, streams: Mapping[str, Sequence[Element]], static: Sequence[Triple], batch: BatchSize, name: str = "q"
) -> Task:
    """Everything in files below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "static.nt"
    data.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in static), encoding="utf-8")
    files = {}
    for number, (iri, elements) in enumerate(streams.items()):
        files[iri] = folder / f"stream{number}.ndjson"
        write_stream(files[iri], elements)
    read = dict.fromkeys(window.stream for window in parse(text).windows)
    replay = cut([ReplaySource(stream, (files[stream.strip("<>")],)) for stream in read], folder / "replay", batch)
    store = load(folder / "store", [StaticSource(data)])
    return Task(name, text, files, (data,), {}, store, replay, batch, folder)


TINY: dict[str, dict[str, Any]] = {
    "nexmark": {"stream": {"rates": [40], "seconds": 13}, "data": {"active": 5, "categories": 11, "channels": 40}},
    "lsbench": {
        "stream": {"rates": [8], "seconds": 64, "batch": '"4s"'},
        "data": {"users": 20, "friends": 3, "channels": 4, "tags": 5},
    },
    "srbench": {"stream": {"rates": [30], "seconds": 14}, "data": {"stations": 20, "states": 3, "near": 2}},
    "lsqb": {"stream": {"rates": [30], "seconds": 13}, "data": {"users": 14, "friends": 3, "channels": 3, "tags": 4}},
    "watdiv": {
        "stream": {"rates": [20], "seconds": 13},
        "data": {"users": 12, "products": 10, "friends": 5, "genres": 4, "retailers": 3, "cities": 2},
    },
    "report": {
        "stream": {"rates": [8], "seconds": 34},
        "data": {"authors": 20, "papers": 20, "coauthor_pairs": 60, "places": 3},
    },
}
"""What makes each workload tiny; the last windows of each stream are full, so that elements also expire."""


def tiny(name: str, folder: Path) -> Worlds:
    """A workload at a tiny size."""
    file = WORKLOADS[name]
    text = file.read_text(encoding="utf-8")
    head, _, _ = text.partition("[quick]")
    head = head.replace('folder = "', f'folder = "{file.parent}/')
    lines = [re.sub(r'= "(\w+/[\w-]+\.rq)"', rf'= "{file.parent}/\1"', head)]
    for table, values in TINY[name].items():
        lines.append(f"[quick.{table}]")
        lines += [f"{key} = {value}" for key, value in values.items()]
    (folder / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")
    return Worlds(read(folder / f"{name}.toml", quick=True), folder / name)
