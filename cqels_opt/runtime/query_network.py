"""Networks of queries: the graphs that a CONSTRUCT emits are elements of a stream that other queries of the run read.

A graph emitted at instant τ is an element with time τ. Instants up to the frontier are final, so all elements of such a stream up
to the frontier exist once its query has been evaluated. Its readers are evaluated after it, in the same batch: *stage* by stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from cqels_opt.errors import InputError
from cqels_opt.operators.algebra.triple import TRIPLE
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.stream_output import Answers
from cqels_opt.operators.term_table import TermTable
from cqels_opt.runtime.term_encoding import FED
from cqels_opt.storage import checksum
from cqels_opt.windows.element_rows import ELEMENT_ROWS


@dataclass(frozen=True, slots=True)
class Network:
    """The queries of a run in stages: each stage reads external streams, and the output of earlier stages."""

    stages: tuple[tuple[CompiledProgram, ...], ...]
    feeds: Mapping[str, str]
    """By the name of a query that others read the stream that it feeds."""

    @property
    def fed(self) -> frozenset[str]:
        """The streams that queries feed."""
        return frozenset(self.feeds.values())


def network(programs: Sequence[CompiledProgram]) -> Network:
    """The stages of some queries.

    InputError if queries depend on each other in a circle, or read output that is no stream of graphs.
    """
    read = {stream for program in programs for stream in program.streams}
    makers: dict[str, CompiledProgram] = {}
    for program in programs:
        if program.output not in read or program.output is None:
            continue
        if program.output in makers:
            raise InputError(f"the queries {makers[program.output].id} and {program.id} both make the stream {program.output}")
        if program.variables != TRIPLE:
            raise InputError(
                f"the query {program.id} makes the stream {program.output}, which others read: it must be a CONSTRUCT"
            )
        makers[program.output] = program
    stages: list[tuple[CompiledProgram, ...]] = []
    waiting, there = list(programs), read - set(makers)
    while waiting:
        ready = tuple(program for program in waiting if there.issuperset(program.streams))
        if not ready:
            raise InputError(f"the queries {_circle(waiting, makers)} wait for each other: a network has no circles")
        stages.append(ready)
        placed = {program.id for program in ready}
        waiting = [program for program in waiting if program.id not in placed]
        there |= {stream for stream, maker in makers.items() if maker.id in placed}
    return Network(tuple(stages), {maker.id: stream for stream, maker in makers.items()})


def _circle(waiting: Sequence[CompiledProgram], makers: Mapping[str, CompiledProgram]) -> str:
    """Some of the queries that wait, each for the next and the last for the first."""
    path = [waiting[0]]
    while True:
        ahead = next(makers[s] for s in path[-1].streams if s in makers and makers[s] in waiting)
        if ahead in path:
            return ", ".join(program.id for program in path[path.index(ahead) :])
        path.append(ahead)


def write_elements(path: Path, found: Answers, terms: TermTable, stream: int) -> Path:
    """Writes the graphs of answers as elements, as the first stage reads them: an element per instant, all of it in one task.

    Returns the file, whose name then holds its digest.
    """
    size = len(found)
    number = np.full(size, stream)
    columns: dict[str, Any] = {
        "stream": number,
        "partition": number + FED,
        "offset": found.time,
        **{name[1:]: pa.array(terms.texts(found.columns[name]), pa.string()) for name in TRIPLE},
        "g": pa.nulls(size, pa.string()),
        "t": found.time,
        "late": np.zeros(size, bool),
        "line": np.arange(size),
    }
    table = pa.table([columns[name] for name in ELEMENT_ROWS.names], ELEMENT_ROWS.names).cast(ELEMENT_ROWS)
    return checksum.write_named(path, lambda file: pa_parquet.write_table(table, file, row_group_size=max(1, size)))
