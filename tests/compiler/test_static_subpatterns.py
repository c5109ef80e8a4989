"""Which static sub-patterns are pre-computed: where a variable disappears or rows become fewer, and never with other bags."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.compiler.static_subpatterns import StaticPart, choose_parts, join_all, name_of
from cqels_opt.lod.relation import Relation
from cqels_opt.query.algebra import Variable


def part(name: str, variables: str, rows: list[tuple[int, ...]]) -> StaticPart:
    columns = {v: np.array([row[i] for row in rows], np.int64) for i, v in enumerate(variables)}
    return StaticPart(name, Relation.build(columns), None, 1)


def bag(relation: Relation, variables: str) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for i, n in enumerate(relation.multiplicities().tolist()):
        found[tuple(int(relation.columns[v][i]) for v in variables)] += n
    return found


def test_coauthors_are_pairs_with_multiplicities() -> None:
    """Q2: the paper that two people wrote is read by nobody; the pairs are kept, as often as there are papers."""
    wrote = [(1, 10), (2, 10), (1, 11), (2, 11), (3, 11)]
    (pairs,) = choose_parts([part("creator", "ap", wrote), part("creator", "bp", wrote)], {"a", "b"})
    assert pairs.name == "creator_creator"
    assert pairs.patterns == 2
    assert bag(pairs.relation, "ab")[1, 2] == 2
    assert bag(pairs.relation, "ab")[3, 3] == 1


def test_a_star_that_would_explode_stays_apart() -> None:
    many = [(1, i) for i in range(20)]
    parts = choose_parts([part("p", "xa", many), part("q", "xb", many)], {"x", "a", "b"})
    assert [p.name for p in parts] == ["p", "q"]


def test_a_join_that_leaves_fewer_rows_is_made() -> None:
    (one,) = choose_parts([part("p", "xa", [(i, i) for i in range(20)]), part("q", "xb", [(3, 7)])], {"x", "a", "b"})
    assert bag(one.relation, "xab") == {(3, 3, 7): 1}


def test_a_variable_that_nobody_reads_leaves_its_multiplicity() -> None:
    (names,) = choose_parts([part("name", "pn", [(1, 5), (1, 6), (2, 5)])], {"p"})
    assert bag(names.relation, "p") == {(1,): 2, (2,): 1}
    assert names.pattern is None


def test_unconnected_parts_are_not_multiplied() -> None:
    parts = choose_parts([part("p", "ab", [(1, 2)]), part("q", "cd", [(3, 4)])], {"a", "c"})
    assert len(parts) == 2


def test_names_of_relations() -> None:
    assert name_of("<http://ex.org/ns#knows>") == "knows"
    assert name_of("<http://ex.org/a/b/>") == "b"
    assert name_of("<urn:x:y>") == "y"
    assert name_of("<http://ex.org/é t>") == "é_t"
    assert name_of(Variable("p")) == "triples"


relations = st.lists(
    st.tuples(
        st.sampled_from(["ab", "bc", "cd", "ad", "bd"]), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)
    ),
    min_size=1,
    max_size=4,
)


@given(relations, st.sets(st.sampled_from("abcd")))
def test_the_bag_of_the_block_stays(tables: list[tuple[str, list[tuple[int, int]]]], needed: set[str]) -> None:
    parts = [part(f"r{i}", variables, rows) for i, (variables, rows) in enumerate(tables)]
    shown = "".join(sorted(needed & {v for variables, _ in tables for v in variables}))
    expected: Counter[tuple[int, ...]] = Counter()
    for rows in product(*(rows for _, rows in tables)):
        binding: dict[str, int] = {}
        fits = all(
            binding.setdefault(v, value) == value for (variables, _), row in zip(tables, rows) for v, value in zip(variables, row)
        )
        if fits:
            expected[tuple(binding[v] for v in shown)] += 1
    for chosen in (parts, choose_parts(parts, needed)):
        whole = join_all(chosen, needed)
        assert set(whole.variables) == set(shown)
        assert bag(whole, shown) == expected
