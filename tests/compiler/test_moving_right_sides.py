"""An OPTIONAL or MINUS whose right side moves stays above the blocks, and is no wall for what it does not concern."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Registered, register
from random_cases import EX, FIXED, MOVING, Maker, Nested, make
from random_cases import Group as Braces

from cqels_opt.operators.algebra.block import BlockNode
from cqels_opt.operators.algebra.left_join import LeftJoinNode
from cqels_opt.operators.algebra.minus import MinusNode
from cqels_opt.operators.algebra.project import ProjectNode
from cqels_opt.operators.compiled_query import CompiledProgram, Tree
from cqels_opt.query.parser import parse

HEAD = (
    f"PREFIX : <{EX}>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\nSELECT *\nFROM NAMED :S [RANGE 2000 ms] AS ?u "
    "FROM NAMED :T [RANGE 1000 ms SLIDE 500 ms] AS ?z\nWHERE "
)


def registered(body: str, seed: int, folder: Path) -> Registered:
    return register(parse(HEAD + body), make(seed).world, folder)


def random_body(maker: Maker) -> Braces:
    """Moving OPTIONALs and MINUSes between patterns, filters and BINDs that may read what they add, or what only they share."""
    rng = maker.rng
    parts: list[str | Nested] = [Nested("GRAPH ?u", (Braces(("?a :at ?x .", *maker.patterns(MOVING, 1).parts)),))]
    for _ in range(rng.choice([3, 3, 4])):
        kind = rng.choice(["OPTIONAL"] * 3 + ["MINUS"] * 2 + ["static", "static", "static optional", "filter", "bind"])
        if kind in ("OPTIONAL", "MINUS"):
            inside: list[str | Nested] = [Nested("GRAPH ?z", (maker.patterns(MOVING, 1),))]
            if rng.random() < 0.3:
                inside += maker.patterns(FIXED, 1).parts
            if rng.random() < 0.3:
                inside.append(f"FILTER({maker.condition()})")
            parts.append(Nested(kind, (Braces(tuple(inside)),)))
        elif kind == "static":
            parts.append(maker.static())
        elif kind == "static optional":
            parts.append(Nested("OPTIONAL", (Braces(tuple(maker.patterns(FIXED, 1).parts)),)))
        elif kind == "filter":
            parts.append(f"FILTER({maker.condition()})")
        else:
            parts.append(f"BIND({maker.number()} AS ?k{len(parts)})")
    return Braces(tuple(parts))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_groups_with_moving_right_sides(first: int, tmp_path: Path) -> None:
    answers = 0
    for seed in range(first, first + 10):
        query = registered(str(random_body(Maker(50_000 + seed))), seed, tmp_path / str(seed))
        whole = query.run(Cut("100"))
        verdict = query.judged(whole.answers)
        assert verdict.equal, f"{seed}: {query.query.text}\n{verdict.text()}"
        answers += len(whole.answers)
        for how in (Cut("7", "random", 3, 3, seed), Cut("4", "first")):
            assert query.run(how).answers == whole.answers, f"{seed} {how}: {query.query.text}"
    assert answers


def tree_of(body: str, folder: Path) -> tuple[Tree, CompiledProgram]:
    """The operators of a query below its projection."""
    program = registered(body, 3, folder).program
    assert isinstance(program.tree, ProjectNode)
    return program.tree.input, program


def nodes(tree: Tree) -> list[Tree]:
    return [tree, *(inner for child in tree.inputs for inner in nodes(child))]


@pytest.mark.parametrize(("word", "node"), [("OPTIONAL", LeftJoinNode), ("MINUS", MinusNode)])
def test_what_it_does_not_concern_joins_the_block_below(word: str, node: type, tmp_path: Path) -> None:
    body = f"{{ GRAPH ?u {{ ?a :at ?x }} {word} {{ GRAPH ?z {{ ?a :knows ?b }} }} ?x :near ?y OPTIONAL {{ ?y :cap ?v }} FILTER(?x != ?y) }}"
    tree, program = tree_of(body, tmp_path)
    assert isinstance(tree, node)
    left = tree.inputs[0]
    assert isinstance(left, BlockNode)
    (block,) = (b for b in program.blocks if b.name == left.block)
    assert [s.kind for s in block.statics] == ["inner", "optional"] and len(block.filters) == 1


@pytest.mark.parametrize(
    "after",
    ["?b :name ?n", "OPTIONAL { ?b :name ?n }", "FILTER(?b != ?a)", "GRAPH ?u { ?b :at ?x }"],
)
def test_what_reads_what_it_adds_stays_above(after: str, tmp_path: Path) -> None:
    tree = registered(
        f"{{ GRAPH ?u {{ ?a :at ?x }} OPTIONAL {{ GRAPH ?z {{ ?a :knows ?b }} }} {after} }}", 3, tmp_path
    ).program.tree
    (place,) = (
        n for n in nodes(tree) if isinstance(n, LeftJoinNode) and isinstance(n.left, BlockNode) and isinstance(n.right, BlockNode)
    )
    assert place is not tree


@pytest.mark.parametrize("after", ["?a :name ?b", "?x :near ?b"])
def test_what_shares_an_added_variable_stays_above(after: str, tmp_path: Path) -> None:
    """Below it would change what the OPTIONAL matches."""
    tree = registered(
        f"{{ GRAPH ?u {{ ?a :at ?x }} OPTIONAL {{ GRAPH ?z {{ ?a :knows ?b }} }} {after} }}", 3, tmp_path
    ).program.tree
    assert not isinstance(tree, LeftJoinNode)
