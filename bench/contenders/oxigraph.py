"""Re-evaluation by pyoxigraph: the query's own text, at every instant, over the content of the windows.

It runs the independent evaluation of ``cqels-opt verify`` (:mod:`cqels_opt.verify`) step by step: a fast SPARQL engine without
support for streams evaluates the whole query again after each change.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cqels_opt.bench.answers import value_of
from cqels_opt.bench.contenders import Answer, Contender, Done, StoppedError, Task, UnsupportedError, elements, limit
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.query.parser import parse
from cqels_opt.verify import Inputs, Options, read_inputs, stepwise
from cqels_opt.verify.model import Row


def run(task: Task, folder: Path) -> Iterator[Done | None]:
    """Read all data, then evaluate one instant after the other."""
    query = parse(task.text)
    meant = query_semantics(query)
    usual = meant.report.default
    if meant.report.by_window or not usual.content_change:
        raise UnsupportedError("only queries that report whenever the content changes are re-evaluated")
    reading = read_inputs(list(task.streams.items()), task.static, list(task.graphs.items()))
    inputs = Inputs(reading.inputs.streams, reading.inputs.default, reading.inputs.graphs)
    instants = stepwise(query, inputs, Options("cc", operator=meant.operator, duplicates=meant.duplicates))
    ahead = next(instants, None)
    last = len(task.chunks) - 1
    greatest = [int(elements(chunk)["t"].to_numpy().max()) for chunk in task.chunks]
    most, used = limit(task.options, "pyoxigraph.cpu_seconds"), 0.0
    for number, until in enumerate(greatest):
        yield None
        began = time.process_time()
        found: list[tuple[int, Counter[Row]]] = []
        while ahead is not None and (ahead[0] < until or number == last):
            found.append((ahead[0], ahead[2]))
            ahead = next(instants, None)
            if ahead is not None and used + time.process_time() - began > most:
                yield Done(_answers(found), stopped=StoppedError(number, last + 1, f"{most:g} CPU seconds", found[-1][0]))
                return
        used += time.process_time() - began
        yield Done(_answers(found))


def _answers(found: Iterable[tuple[int, Counter[Row]]]) -> Iterator[Answer]:
    for at, rows in found:
        for row, count in rows.items():
            values = {name: value_of(term) for name, term in row}
            yield from [(at, values)] * count


CONTENDERS = (Contender("pyoxigraph", "the query re-evaluated by pyoxigraph whenever something changes", run),)
