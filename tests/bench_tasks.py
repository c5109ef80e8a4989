"""Tasks for contenders in tests: a query over elements and static triples, cut into micro-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from local_runs import Triple, write_stream

from cqels_opt.bench.contenders import Task
from cqels_opt.bench.local import load
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.verify import Element
from cqels_opt.windows.replay import BatchSize, ReplaySource, cut


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
