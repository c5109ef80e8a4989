"""From the rows of a step to answers: ISTREAM, DSTREAM, RSTREAM at each instant of E, as bags (RSP-QL 2014, Definitions 20–22)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cqels_opt.operators.rows import Ints, Rows, group_ids, mix
from cqels_opt.operators.terms import TermTable
from cqels_opt.operators.tree import ORDER, at_each_instant
from cqels_opt.query.algebra import Operator
from cqels_opt.rdf.terms import XSD_STRING, iri_value, is_blank, is_iri, literal_parts

SIGN: dict[Operator, str] = {"istream": "+", "dstream": "-", "rstream": "="}


@dataclass(slots=True)
class Answers:
    """Answers in order of time: the instant, how often, and the ids of the variables, a column each."""

    time: Ints
    n: Ints
    columns: dict[str, Ints]
    op: str

    def __len__(self) -> int:
        return len(self.time)

    @property
    def total(self) -> int:
        """The number of answers, each as often as it occurs."""
        return int(self.n.sum())


def answers(rows: Rows, variables: Sequence[str], operator: Operator, instants: Ints, part: int = 0, parts: int = 1) -> Answers:
    """What is put out at the instants after the first, of the rows whose hash falls to this part."""
    missing = np.zeros(len(rows), np.int64)
    columns = [rows.columns.get(v, missing) for v in variables]
    if parts > 1:
        mine = mix(columns, len(rows)) % np.uint64(parts) == part
        rows, columns = rows.take(mine), [c[mine] for c in columns]
    if operator == "rstream":
        place, n, chosen, order = _snapshots(rows)
    else:
        place, n, chosen = _changes(rows, columns, 1 if operator == "istream" else -1, len(instants))
        order = np.zeros(len(place), np.int64)
    picked = [c[chosen] for c in columns]
    by_time = np.lexsort((*picked, order, place))
    return Answers(instants[place[by_time]], n[by_time], {v: c[by_time] for v, c in zip(variables, picked)}, SIGN[operator])


def _snapshots(rows: Rows) -> tuple[Ints, Ints, Ints, Ints]:
    numbered = rows.with_column("#row", np.arange(len(rows)))
    each = at_each_instant(numbered.with_interval(np.maximum(rows.start, 1), rows.end))
    order = each.columns.get(ORDER, np.zeros(len(each), np.int64))
    return each.start, each.n, each.columns["#row"], order


def _changes(rows: Rows, columns: list[Ints], sign: int, places: int) -> tuple[Ints, Ints, Ints]:
    """Bag differences: a row that ends and an equal one that begins at the same place cancel out."""
    group, first = group_ids(columns, len(rows))
    event = np.concatenate([group * (places + 1) + rows.start, group * (places + 1) + rows.end])
    change = np.concatenate([rows.n, -rows.n]) * sign
    key, inverse = np.unique(event, return_inverse=True)
    total = np.zeros(len(key), np.int64)
    np.add.at(total, inverse, change)
    place = key % (places + 1)
    shown = (total > 0) & (place >= 1) & (place < places)
    return place[shown], total[shown], first[key[shown] // (places + 1)]


def json_term(term: str) -> dict[str, str]:
    """A term as SPARQL 1.1 JSON results write it."""
    if is_iri(term):
        return {"type": "uri", "value": iri_value(term)}
    if is_blank(term):
        return {"type": "bnode", "value": term[2:]}
    lexical, datatype, language = literal_parts(term)
    found = {"type": "literal", "value": lexical}
    if language:
        found["xml:lang"] = language
    elif datatype != XSD_STRING:
        found["datatype"] = datatype
    return found


def json_lines(found: Answers, terms: TermTable) -> tuple[list[str], Ints]:
    """The answers as lines of JSON, a line an occurrence, and the time of each."""
    shown: dict[str, list[str]] = {}
    for variable, ids in found.columns.items():
        distinct, inverse = np.unique(ids, return_inverse=True)
        head = json.dumps(variable, ensure_ascii=False)
        pieces = [
            f"{head}: {json.dumps(json_term(text), ensure_ascii=False)}" if text is not None else ""
            for text in terms.texts(distinct)
        ]
        shown[variable] = [pieces[i] for i in inverse.tolist()]
    lines = []
    for i, (time, n) in enumerate(zip(found.time.tolist(), found.n.tolist())):
        bindings = ", ".join(piece for column in shown.values() if (piece := column[i]))
        lines += [f'{{"time": {time}, "op": "{found.op}", "bindings": {{{bindings}}}}}'] * n
    return lines, np.repeat(found.time, found.n)


def columns_of(found: Answers, terms: TermTable) -> tuple[Ints, dict[str, list[str | None]]]:
    """The times of the answers, each as often as it occurs, and a column of terms (None: unbound) a variable."""
    which = np.repeat(np.arange(len(found)), found.n)
    return found.time[which], {variable: terms.texts(ids[which]) for variable, ids in found.columns.items()}


def column_names(variables: Sequence[str]) -> dict[str, str]:
    """The DataFrame column of each variable; a name that clashes without regard to case gets ``_2``, ``_3`` …

    ``time``, ``op`` and ``query`` are taken, whether or not the answers of several queries come together.
    """
    taken = {"time", "op", "query"}
    names = {}
    for variable in variables:
        name, number = variable, 2
        while name.lower() in taken:
            name, number = f"{variable}_{number}", number + 1
        taken.add(name.lower())
        names[variable] = name
    return names
