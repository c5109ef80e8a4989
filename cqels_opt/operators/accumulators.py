"""Accumulators: COUNT, SUM and AVG of groups, kept from step to step, so that a change of some members does not read the whole group.

These aggregates are sums over the members. The changing rows of the group's input give the difference that a step adds to each sum. The
differences are kept as rows, indexed by the keys of the group; those of a group add up to its sums at the instant reported last, and
merging files adds them up. Members that are not numbers, or numbers that do not fit into columns (doubles, huge ones), are counted as
``others``; a group with others is computed from its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cqels_opt.lod.multiplicities import by_group
from cqels_opt.operators.aggregate import Members, counts, group_intervals, sum_terms
from cqels_opt.operators.algebra.group import GroupNode
from cqels_opt.operators.algebra.operator import evaluate
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.expressions import values
from cqels_opt.operators.rows import Ints, Rows, concat, group_ids
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.operators.term_table import TermTable
from cqels_opt.rdf.ids import kinds, numeric_parts
from cqels_opt.state.result_store import ResultRun
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

DIGITS = 9  # of the fraction of a decimal; a decimal with more is one of the others
LARGEST = 1 << 36  # that a row adds to a whole part: 2**27 rows do not overflow a column
MOST = 1 << 32  # multiplicity of a row: the sum of this number of fractions fits into a column
FEW = 1 << 16  # rows of a step that are not folded
MEMBERS, OTHERS = "#members", "#others"


def amount_names(node: GroupNode) -> tuple[str, ...]:
    """The columns of a node's sums."""
    found = [MEMBERS, OTHERS]
    for i, (_, spec) in enumerate(node.aggregates):
        found += [f"#bound{i}"] if spec.function == "COUNT" else [f"#whole{i}", f"#fraction{i}", f"#decimals{i}"]
    return tuple(found)


def members(node: GroupNode, rows: Rows, terms: TermTable) -> Rows:
    """Rows as members of their groups: the keys, and the amounts that each row adds to the sums."""
    amounts = {MEMBERS: rows.n}
    others = np.zeros(len(rows), bool)
    for i, (_, spec) in enumerate(node.aggregates):
        argument = values(rows, spec.argument, terms) if spec.argument is not None else np.ones(len(rows), np.int64)
        if spec.function == "COUNT":
            amounts[f"#bound{i}"] = np.where(argument != 0, rows.n, 0)
            continue
        mantissa, scale = numeric_parts(argument)
        shift = 10 ** np.minimum(scale, DIGITS)
        whole = mantissa // shift
        fits = (np.abs(whole).astype(float) * rows.n < LARGEST) & (rows.n < MOST)
        plain = np.isin(kinds(argument), (4, 5)) & (scale <= DIGITS) & fits
        others |= ~plain
        n = np.where(plain, rows.n, 0)
        fraction = np.where(plain, (mantissa - whole * shift) * (10**DIGITS // shift), 0) * n
        amounts[f"#whole{i}"] = np.where(plain, whole, 0) * n + fraction // 10**DIGITS
        amounts[f"#fraction{i}"] = fraction % 10**DIGITS
        amounts[f"#decimals{i}"] = np.where(kinds(argument) == 5, n, 0)
    amounts[OTHERS] = np.where(others, rows.n, 0)
    columns = dict(zip(node.keys, rows.values(node.keys))) | {name: amounts[name] for name in amount_names(node)}
    return Rows(columns, rows.start, rows.end, np.ones(len(rows), np.int64))


def folded(rows: Rows, keys: Sequence[str]) -> Rows:
    """Members with equal keys and intervals, merged: their amounts are added up."""
    if len(rows) <= FEW:
        return rows
    group, first = group_ids([*rows.values(keys), rows.start, rows.end], len(rows))
    found = rows.take(first)
    for name in rows.columns.keys() - set(keys):
        found.columns[name] = by_group(rows.columns[name], group, len(first))
    return found


def added_up(rows: Rows, keys: Sequence[str], amounts: Sequence[str]) -> Rows:
    """Differences with equal keys, added up; rows whose amounts are all zero are dropped."""
    group, first = group_ids(rows.values(keys), len(rows))
    columns = {key: rows.columns[key][first] for key in keys}
    some = np.zeros(len(first), bool)
    for name in amounts:
        columns[name] = by_group(rows.columns[name], group, len(first))
        some |= columns[name] != 0
    size = len(first)
    always = np.full(size, BEFORE_TIME), np.full(size, FOREVER)
    return Rows(columns, *always, np.ones(size, np.int64)).take(some)


@dataclass(frozen=True, eq=False)
class Accumulated:
    """The groups of a node in a step. ``new`` are the changing members, ``held`` the differences of earlier steps."""

    node: GroupNode
    scope: Scope
    new: Rows
    held: Sequence[ResultRun]

    @cached_property
    def touched(self) -> KeyFilter:
        """The groups whose members change."""
        return KeyFilter.of(self.new, self.node.keys)

    def rows(self, keys: KeyFilter) -> Rows:
        """The groups' rows at all instants of the step."""
        node, scope, names = self.node, self.scope, amount_names(self.node)
        new = self.new if keys is self.touched else keys.within(self.new)
        before = [run.of(keys, int(BEFORE_TIME)) for run in self.held]
        counted = new.take(new.start == 0)  # members that the sums before the step include
        counted = Rows(
            {**counted.columns, **{name: -counted.columns[name] for name in names}}, counted.start, counted.end, counted.n
        )
        rows = concat([new, *(scope.always(part) for part in (counted, *before))])
        group, first = group_ids(rows.values(node.keys), len(rows))
        intervals = group_intervals(group, rows, max(len(first), int(node.implicit)), scope.low, scope.high, node.implicit)
        sums = dict(zip(names, Members.of(intervals, group, rows).running(*rows.values(names))))
        columns = {key: column[first][intervals.group] for key, column in zip(node.keys, rows.values(node.keys))}
        for i, (variable, spec) in enumerate(node.aggregates):
            columns[variable] = _values(spec.function, i, sums, scope.terms)
        found = Rows(columns, intervals.start, intervals.end, np.ones(len(intervals.group), np.int64))
        special = np.isin(intervals.group, intervals.group[sums[OTHERS] != 0])
        shown = (sums[MEMBERS] > 0) | node.implicit
        if not special.any():
            return found.take(shown)
        theirs = KeyFilter.of(found.take(special), node.keys)
        again = node.apply(theirs.within(evaluate(node.input, scope, theirs)), scope)
        return concat([found.take(shown & ~special), again])

    def difference(self) -> Rows:
        """The difference that the step adds to the sums of each group."""
        names, new = amount_names(self.node), self.new
        sign = (new.start > 0).astype(np.int64) - (new.end < self.scope.high)
        columns = {**new.columns, **{name: new.columns[name] * sign for name in names}}
        return added_up(Rows(columns, new.start, new.end, new.n), self.node.keys, names)


def _values(function: str, i: int, sums: dict[str, Ints], terms: TermTable) -> Ints:
    if function == "COUNT":
        return counts(sums[f"#bound{i}"], terms)
    whole, fraction, decimals = sums[f"#whole{i}"], sums[f"#fraction{i}"], sums[f"#decimals{i}"]
    return sum_terms(function, sums[MEMBERS], decimals, whole, fraction, DIGITS, terms)
