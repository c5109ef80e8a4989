"""Re-evaluation by pyoxigraph: the query's own text, at every instant, over what the windows hold then.

It is the independent evaluation that ``cqels-opt verify`` uses (:mod:`cqels_opt.verify`), a step at a time: a well-made SPARQL engine
without any support for streams, which must be asked again whenever something has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cqels_opt.bench.contenders import Answer, Contender, Done, Task, UnsupportedError, elements
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.query.parser import parse
from cqels_opt.verify import Inputs, Options, read_inputs, stepwise
from cqels_opt.verify.literals import literal_parts
from cqels_opt.verify.model import Row


def run(task: Task, folder: Path) -> Iterator[Done | None]:
    """Reads everything, and then goes from instant to instant."""
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
    for number, until in enumerate(greatest):
        yield None
        found: list[tuple[int, Counter[Row]]] = []
        while ahead is not None and (ahead[0] < until or number == last):
            found.append((ahead[0], ahead[2]))
            ahead = next(instants, None)
        yield Done(_answers(found))


def _answers(found: Iterable[tuple[int, Counter[Row]]]) -> Iterator[Answer]:
    for time, rows in found:
        for row, count in rows.items():
            values = {name: _value(term) for name, term in row}
            yield from [(time, values)] * count


def _value(term: str) -> str:
    if term.startswith('"'):
        return literal_parts(term)[0]
    return term[1:-1] if term.startswith("<") else term


CONTENDERS = (Contender("pyoxigraph", "the query re-evaluated by pyoxigraph whenever something changes", run),)
