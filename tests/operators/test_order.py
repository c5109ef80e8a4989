"""ORDER BY, OFFSET and LIMIT over rows with intervals: at each instant what they leave of the rows of that instant."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.operators.aggregate import MANY_IRIS, ranks
from cqels_opt.operators.algebra import order
from cqels_opt.operators.algebra.order import OrderNode
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.algebra.values import ValuesNode
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.algebra import Variable
from cqels_opt.query.values import order_key, sort_key
from cqels_opt.rdf.ids import PUBLIC

from .interval_rows import HORIZON, Plain, plain_rows, rows_of, snapshots

XSD = "http://www.w3.org/2001/XMLSchema#"
NUMBERS = [f'"2"^^<{XSD}integer>', *(f'"{d}"^^<{XSD}decimal>' for d in ("2.0", "2.00", "0.5")), f'"-1"^^<{XSD}integer>']
TERMS = ["<http://ex.org/p>", "<http://ex.org/p-1>", '"a"', *NUMBERS[:3]]


def expected(rows: Rows, node: OrderNode, terms: TermTable) -> Counter[tuple[int, tuple[int, ...]]]:
    """The rows at each instant, from the definition; copies of a row count one by one."""
    found: Counter[tuple[int, tuple[int, ...]]] = Counter()
    value, name = terms.texts(rows.columns["v"]), terms.texts(rows.columns["k"])
    for at in range(HORIZON):
        alive = [i for i in range(len(rows)) if rows.start[i] <= at < rows.end[i]]
        alive.sort(key=lambda i: (order_key(value[i]), order_key(name[i])))
        for _, descending in node.keys:
            alive.sort(key=lambda i: sort_key(value[i]), reverse=descending)
        copies = [i for i in alive for _ in range(rows.n[i])]
        upto = None if node.limit is None else node.offset + node.limit
        found.update((at, (int(rows.columns["k"][i]),)) for i in copies[node.offset : upto])
    return found


@pytest.mark.parametrize(("cells", "pair"), [(1, 1e9), (7, 1e9), (order.CELLS, 1e9), (order.CELLS, 0), (order.CELLS, order.PAIR)])
@given(
    plain=plain_rows(1, values=6, unbound=True, most=20),
    texts=st.sampled_from([NUMBERS, TERMS]),
    keys=st.sampled_from([(), ((Variable("v"), False),), ((Variable("v"), True),)]),
    offset=st.integers(0, 3),
    limit=st.sampled_from([None, 0, 1, 2, 5, 100]),
)
def test_at_each_instant_the_first_rows_are_left(
    cells: int,
    pair: float,
    plain: list[Plain],
    texts: list[str],
    keys: tuple[tuple[Variable, bool], ...],
    offset: int,
    limit: int | None,
) -> None:
    terms, rows = TermTable(PUBLIC, None), rows_of("v", plain)
    codes = np.concatenate([[0], terms.ids(texts)])
    rows.columns["v"] = codes[rows.columns["v"] % len(codes)]
    rows.columns["k"] = terms.ids([f'"{i:02}"' for i in range(len(rows))])
    node = OrderNode(ValuesNode((), ()), keys, offset, limit, ("v", "k"))
    with patch.object(order, "CELLS", cells), patch.object(order, "PAIR", pair), patch.object(order, "FIRST_ROWS", 2):
        found = node.apply(rows, Scope({}, "", terms, np.arange(HORIZON), 0, {}))
    assert snapshots(found, "k") == expected(rows, node, terms)


def test_a_row_that_stays_among_the_first_is_one_row() -> None:
    """Others begin and end behind it in each instant."""
    terms = TermTable(PUBLIC, None)
    rows = rows_of("v", [((1,), 0, HORIZON, 1), *(((2 + at,), at, at + 1, 1) for at in range(HORIZON))])
    rows.columns["v"] = terms.ids([f'"{v}"^^<{XSD}integer>' for v in rows.columns["v"]])
    node = OrderNode(ValuesNode((), ()), ((Variable("v"), False),), 0, 1, ("v",))
    found = node.apply(rows, Scope({}, "", terms, np.arange(HORIZON), 0, {}))
    assert (found.start.tolist(), found.end.tolist()) == ([0], [HORIZON])


@pytest.mark.parametrize("key", [order_key, sort_key])
def test_many_iris_have_the_order_of_a_few(key: object) -> None:
    """The bracket is no part of an IRI: <a> comes before <a-b>, though > comes after -."""
    names = ["a", "a-b", "a/b", "aé", "a\U0001f600", "a\uffee", "Z", *(f"n{i}" for i in range(MANY_IRIS))]
    terms = TermTable(PUBLIC, None)
    ids = terms.ids([f"<http://ex.org/{name}>" for name in names])
    rank, ordered = ranks(ids, terms, key)  # type: ignore[arg-type]
    assert terms.texts(ordered) == sorted(terms.texts(ids), key=order_key)
    assert np.array_equal(ordered[rank], ids)
    mixed = np.append(ids, terms.ids(['"a"']))
    assert np.array_equal(ranks(mixed, terms, key)[0][:-1], rank)  # type: ignore[arg-type]
