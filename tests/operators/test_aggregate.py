"""GROUP BY over rows with intervals: at each instant what SPARQL's aggregates give for the members of that instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.operators import aggregate as of_groups
from cqels_opt.operators.aggregate import Members, counts, earliest, group_intervals, grouped, ranks
from cqels_opt.operators.rows import Rows, group_ids
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.aggregates import aggregate
from cqels_opt.query.algebra import Aggregate, Call, Constant, Variable
from cqels_opt.query.values import order_key, sort_key
from cqels_opt.rdf.ids import LARGEST_INTEGER, PUBLIC, in_order_of_terms
from cqels_opt.rdf.terms import XSD_INTEGER, literal

from .interval_rows import HORIZON, Plain, plain_rows, rows_of, snapshots

XSD = "http://www.w3.org/2001/XMLSchema#"
TEXTS = [
    *(f'"{i}"^^<{XSD}integer>' for i in (-1, 0, 2, 7)),
    *(f'"{d}"^^<{XSD}decimal>' for d in ("0.5", "-2.25")),
    f'"1.5E0"^^<{XSD}double>',
    f'"007"^^<{XSD}integer>',
    '"a"',
    '"b"@en',
    "<http://ex.org/p>",
]
INTEGERS = TEXTS[:4]
NUMBERS = [*TEXTS[:6], *(f'"{d}"^^<{XSD}decimal>' for d in ("7.0", "7.00", "-1.0", "0.0", "0.123456789012345"))]


def table() -> TermTable:
    return TermTable(PUBLIC, None)


def with_terms(plain: Sequence[Plain], terms: TermTable, texts: Sequence[str], column: int) -> Rows:
    """Rows of key ``k`` and value ``v``, whose small numbers stand for terms (0: unbound)."""
    rows = rows_of("kv", plain)
    codes = np.concatenate([[0], terms.ids(texts)])
    rows.columns["v"] = codes[rows.columns["v"] % (len(texts) + 1)]
    return rows


SPECS = [
    Aggregate("COUNT", None),
    Aggregate("COUNT", None, distinct=True),
    *(
        Aggregate(f, Variable("v"), d)
        for f in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
        for d in (False, True)
    ),
    Aggregate("GROUP_CONCAT", Variable("v"), False, "|"),
    Aggregate("SUM", Call("+", (Variable("v"), Constant(INTEGERS[2])))),
]


def by_instant(plain: Sequence[Plain], rows: Rows, terms: TermTable, spec: Aggregate, at: int) -> dict[int, str | None]:
    """The aggregate of each group at an instant, from the aggregate over plain bags."""
    texts = terms.texts(rows.columns["v"])
    members: dict[int, list[tuple[str | None, int]]] = {}
    distinct: dict[int, set[object]] = {}
    for (values, start, end, n), text in zip(plain, texts):
        if start <= at < end:
            members.setdefault(values[0], []).append((text, n))
            distinct.setdefault(values[0], set()).add((values[0], text))
    run = aggregate(spec.function, spec.distinct, spec.separator)
    if spec.argument is None:
        count = {k: len(distinct[k]) if spec.distinct else sum(n for _, n in rows_) for k, rows_ in members.items()}
        return {k: f'"{c}"^^<{XSD}integer>' for k, c in count.items()}
    return {k: run(rows_) for k, rows_ in members.items()}


@pytest.mark.parametrize("spec", SPECS[:-1], ids=lambda s: f"{s.function}-{s.distinct}-{s.argument}-{s.separator}")
@given(plain=plain_rows(2, values=len(TEXTS), unbound=True, most=12), texts=st.sampled_from([TEXTS, INTEGERS, NUMBERS]))
def test_each_instant_by_definition(spec: Aggregate, plain: list[Plain], texts: list[str]) -> None:
    terms = table()
    rows = with_terms(plain, terms, texts, 1)
    found = grouped(rows, ["k"], [("a", spec)], False, terms, 0, HORIZON, ("k", "v"))
    assert (found.n == 1).all()
    shown = snapshots(found, ["k", "a"])
    for at in range(HORIZON):
        expected = by_instant(plain, rows, terms, spec, at)
        got = {k: terms.texts(np.array([a], np.int64))[0] for (time, (k, a)), n in shown.items() if time == at and n == 1}
        assert got == expected


def test_an_expression_is_aggregated() -> None:
    terms = table()
    rows = with_terms([((1, 3), 0, 2, 2), ((1, 4), 1, 3, 1)], terms, INTEGERS, 1)
    found = grouped(rows, ["k"], [("a", SPECS[-1])], False, terms, 0, HORIZON)
    assert list(zip(found.start.tolist(), found.end.tolist(), terms.texts(found.columns["a"]))) == [
        (0, 1, f'"8"^^<{XSD}integer>'),  # twice 2 + 2
        (1, 2, f'"17"^^<{XSD}integer>'),  # and 7 + 2
        (2, 3, f'"9"^^<{XSD}integer>'),
    ]


def test_an_implicit_group_is_there_without_members() -> None:
    terms = table()
    for plain in ([], [((1, 3), 2, 4, 1)]):
        rows = with_terms(plain, terms, INTEGERS, 1)
        found = grouped(
            rows, [], [("a", Aggregate("COUNT", None)), ("m", Aggregate("MAX", Variable("v")))], True, terms, 0, HORIZON
        )
        counts = [(s, e, t) for s, e, t in zip(found.start.tolist(), found.end.tolist(), terms.texts(found.columns["a"]))]
        nothing, one = f'"0"^^<{XSD}integer>', f'"1"^^<{XSD}integer>'
        assert counts == ([(0, 2, nothing), (2, 4, one), (4, 6, nothing)] if plain else [(0, 6, nothing)])


def test_a_group_key_may_be_unbound_and_a_group_without_members_is_gone() -> None:
    terms = table()
    rows = with_terms([((0, 3), 0, 2, 1), ((1, 3), 1, 4, 1)], terms, INTEGERS, 1)
    found = grouped(rows, ["k"], [("a", Aggregate("COUNT", Variable("v")))], False, terms, 0, HORIZON)
    assert [(k, s, e) for k, s, e in zip(found.columns["k"].tolist(), found.start.tolist(), found.end.tolist())] == [
        (0, 0, 2),
        (1, 1, 4),
    ]


def test_sums_beyond_64_bits_stay_exact() -> None:
    terms = table()
    large = f'"{2**62}"^^<{XSD}integer>'
    rows = with_terms([((1, 1), 0, 2, 3), ((1, 1), 1, 2, 1)], terms, [large], 1)
    found = grouped(rows, ["k"], [("a", Aggregate("SUM", Variable("v")))], False, terms, 0, HORIZON)
    assert terms.texts(found.columns["a"]) == [f'"{3 * 2**62}"^^<{XSD}integer>', f'"{4 * 2**62}"^^<{XSD}integer>']


@given(plain_rows(2))
def test_the_earliest_of_equal_rows_keeps_its_place(plain: list[Plain]) -> None:
    rows = rows_of(["x", "#order"], plain)
    found = snapshots(earliest(rows, "#order"), ["x", "#order"])
    expected: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for at in range(HORIZON):
        alive = [values for values, start, end, _ in plain if start <= at < end]
        for x in {v[0] for v in alive}:
            expected[at, (x, min(o for y, o in alive if y == x))] += 1
    assert found == expected


def test_ranks_follow_the_order_of_terms() -> None:
    terms = table()
    codes = terms.ids(["<http://ex.org/p>", INTEGERS[3], INTEGERS[2], None])
    place, ordered = ranks(codes, terms)
    assert place.tolist() == [1, 3, 2, 0]  # unbound, IRIs, numbers by value
    assert terms.texts(ordered) == [None, "<http://ex.org/p>", INTEGERS[2], INTEGERS[3]]


def test_ranks_of_equal_values() -> None:
    terms = table()
    codes = terms.ids([f'"1.0"^^<{XSD}decimal>', INTEGERS[2], f'"02"^^<{XSD}integer>', f'"1"^^<{XSD}integer>'])
    assert ranks(codes, terms)[0].tolist() == [1, 3, 2, 0]  # ties go by the text
    assert ranks(codes, terms, sort_key)[0].tolist() == [0, 1, 1, 0]
    assert ranks(codes[:0], terms, sort_key)[0].tolist() == []


@given(st.lists(st.sampled_from([*NUMBERS, f'"-0.0"^^<{XSD}decimal>', f'"{2**57}"^^<{XSD}integer>'])))
def test_numbers_are_in_the_order_of_terms(texts: list[str]) -> None:
    places = in_order_of_terms(table().ids(texts))
    plain = not any("-0.0" in text for text in texts)
    if places is None:
        assert not plain or (any(str(2**57) in text for text in texts) and any("." in text for text in texts))
    else:
        keys = [order_key(text) for text in texts]
        assert plain and [a < b for a in places.tolist() for b in places.tolist()] == [a < b for a in keys for b in keys]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 4)), max_size=6), st.integers(1, 2))
def test_equal_rows_have_equal_numbers_also_in_long_runs(runs: list[tuple[int, int, int]], columns: int) -> None:
    rows = [row[:columns] for *row, times in runs for _ in range(times)]
    group, first = group_ids([np.array([row[i] for row in rows], np.int64) for i in range(columns)], len(rows))
    assert [a == b for a in group for b in group] == [a == b for a in rows for b in rows]
    assert [rows.index(rows[place]) for place in first.tolist()] == first.tolist()
    assert group[first].tolist() == list(range(len(set(map(tuple, rows)))))


def test_counts_are_integers_also_beyond_those_that_an_id_holds() -> None:
    terms = TermTable(PUBLIC, None)
    numbers = np.array([0, 7, LARGEST_INTEGER, 7])
    assert counts(numbers, terms).tolist() == terms.ids([literal(str(n), XSD_INTEGER) for n in numbers.tolist()]).tolist()
    more = np.array([7, LARGEST_INTEGER + 1])
    assert terms.texts(counts(more, terms)) == [literal(str(n), XSD_INTEGER) for n in more.tolist()]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=12))
def test_the_least_member_of_each_interval(some: list[tuple[int, int, int, int]]) -> None:
    """Also where pairs of members and intervals are not made."""
    amounts, group, start = (np.array([row[k] for row in some], np.int64) for k in range(3))
    rows = Rows({}, start, start + np.array([row[3] for row in some], np.int64), np.ones(len(some), np.int64))
    intervals = group_intervals(group, rows, 2, 0, 12, False)
    members = Members.of(intervals, group, rows)
    least = np.minimum.reduceat(amounts, members.runs)
    wanted = [
        min((a for a, of, begin, length in some if of == g and begin <= s < begin + length), default=99)
        for g, s in zip(intervals.group.tolist(), intervals.start.tolist())
    ]
    assert members._least_in_order(least, 99).tolist() == members.least(amounts, 99).tolist() == wanted


def test_the_greatest_of_many_members_takes_no_quadratic_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_groups, "check", lambda rows, columns: pytest.fail(f"{rows} pairs"))
    n, terms = 20_000, table()
    rows = Rows({"v": terms.ids(["<urn:v>"] * n)}, np.arange(n), np.full(n, 10 * n), np.ones(n, np.int64))
    found = grouped(rows, [], [("m", Aggregate("MAX", Variable("v"), False))], True, terms, 0, 2 * n)
    assert len(found) and set(terms.texts(found.columns["m"][found.start >= 0])) == {"<urn:v>"}
