"""Kept sums: whatever the values and however often a row counts, a group's SUM, AVG and COUNT are those of its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import RunError
from cqels_opt.operators.accumulators import FEW, MEMBERS, Accumulated, folded, members
from cqels_opt.operators.aggregate import grouped
from cqels_opt.operators.algebra.block import BlockNode
from cqels_opt.operators.algebra.group import GroupNode
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.algebra import Aggregate, Variable
from cqels_opt.rdf.ids import PUBLIC

from .interval_rows import HORIZON, Plain, rows_of, snapshots

XSD = "http://www.w3.org/2001/XMLSchema#"
TEXTS = [
    *(f'"{i}"^^<{XSD}integer>' for i in (0, 1, -1, 10**9, -(10**9), 2**36, 2**62)),
    *(f'"{d}"^^<{XSD}decimal>' for d in ("0.5", "-2.25", "0.999999999", "-0.000000001", "1000000000.1")),
    f'"1.5E0"^^<{XSD}double>',
]
SPECS = tuple((f, Aggregate(f, Variable("v"))) for f in ("COUNT", "SUM", "AVG"))
GROUPS = GroupNode(BlockNode("b"), ("k",), SPECS, False)


@dataclass(frozen=True)
class Members:
    """A block's rows."""

    rows: Rows

    def of(self, keys: KeyFilter) -> Rows:
        return keys.within(self.rows)


def sums(plain: Sequence[Plain], terms: TermTable) -> tuple[Rows, Rows]:
    """The groups of rows of key and text (its place in TEXTS), from kept sums and from the members."""
    rows = rows_of("kv", plain)
    rows.columns["v"] = terms.ids(TEXTS)[rows.columns["v"]]
    scope = Scope({"b": Members(rows)}, "", terms, np.arange(HORIZON), 0, {})  # type: ignore[dict-item]
    kept = Accumulated(GROUPS, scope, members(GROUPS, rows, terms), ())
    return kept.rows(EVERY), grouped(rows, ["k"], SPECS, False, terms, 0, HORIZON)


ROW = st.tuples(
    st.tuples(st.integers(1, 2), st.integers(0, len(TEXTS) - 1)),
    st.integers(1, HORIZON - 1),
    st.sampled_from([1, 2, 3, 70, 10**5, 2**32, 10**10]),
).map(lambda row: (row[0], row[1], HORIZON, row[2]))


@given(st.lists(ROW, min_size=1, max_size=6))
def test_kept_sums_are_those_of_the_members(plain: list[Plain]) -> None:
    kept, made = sums(plain, TermTable(PUBLIC, None))
    names = ["k", *(name for name, _ in SPECS)]
    assert snapshots(kept, names) == snapshots(made, names)


def test_a_row_that_counts_ten_billion_times() -> None:
    terms = TermTable(PUBLIC, None)
    kept, _ = sums([((1, TEXTS.index(f'"{10**9}"^^<{XSD}integer>')), 1, HORIZON, 10**10)], terms)
    assert terms.texts(kept.columns["SUM"]) == [f'"{10**19}"^^<{XSD}integer>']
    assert terms.texts(kept.columns["AVG"]) == [f'"{10**9}"^^<{XSD}decimal>']


def test_merged_members_never_wrap() -> None:
    size = 2 * FEW
    zeros, ones = np.zeros(size, np.int64), np.ones(size, np.int64)
    merged = folded(Rows({"k": zeros, MEMBERS: np.full(size, (1 << 62) // size - 1)}, zeros, ones, ones), ["k"])
    assert merged.columns[MEMBERS].tolist() == [(1 << 62) - size]
    with pytest.raises(RunError, match="more than 2\\^62 rows are equal"):
        folded(Rows({"k": zeros, MEMBERS: np.full(size, (1 << 63) // size)}, zeros, ones, ones), ["k"])
