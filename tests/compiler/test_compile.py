"""The shape of compiled programs: the report's queries, and what each part of the language becomes."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from local_runs import Registered, Settings, Triple, World, register

from cqels_opt.operators.algebra.exists import ExistsNode
from cqels_opt.operators.blocks import Block
from cqels_opt.operators.compiled_query import CompiledProgram, Tree
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.state.worker_cache import relation
from cqels_opt.verify import Element

QUERIES = Path(__file__).resolve().parents[2] / "bench" / "report_queries"
LOC, FOAF = "http://deri.org/ns/loc#", "http://xmlns.com/foaf/0.1/"
DC, TERMS = "http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/"
EX = "http://ex.org/"


def social() -> World:
    """Six people; papers 0 to 3 by (0, 1), (1, 2, 3), (0, 5) and 4; 0 cites 1 and 2 cites 3."""
    static: list[Triple] = [(f"<u:a{a}>", f"<{FOAF}name>", f'"A{a}"') for a in range(6)]
    for paper, authors in enumerate([(0, 1), (1, 2, 3), (0, 5), (4,)]):
        for a in authors:
            static += [(f"<u:p{paper}>", f"<{DC}creator>", f"<u:a{a}>"), (f"<u:a{a}>", f"<{DC}creator>", f"<u:p{paper}>")]
    static += [("<u:p0>", f"<{TERMS}references>", "<u:p1>"), ("<u:p2>", f"<{TERMS}references>", "<u:p3>")]
    places = {"http://deri.org/localization/": [(f"<u:l{p}>", f"<{LOC}name>", f'"L{p}"') for p in range(3)]}
    stream = [Element(1000 * i, ((f"<u:a{i * 5 % 6}>", f"<{LOC}at>", f"<u:l{i % 2}>"),)) for i in range(40)]
    return World({"http://deri.org/locstreams": [stream]}, static, places)


def report_query(name: str, folder: Path) -> Registered:
    text = (QUERIES / f"{name}.rq").read_text(encoding="utf-8")
    return register(text.replace("$Author Name$", "A1"), social(), folder)


def outline(tree: Tree) -> str:
    name = type(tree).__name__.removesuffix("Node")
    inner = ", ".join(map(outline, tree.inputs))
    return f"{name}({inner})" if inner else name


def relations(block: Block) -> list[str]:
    """The block's relations, each with its variables."""
    return [f"{r.name}({' '.join(r.variables)})" for r in (*block.occurrences, *block.statics)]


def only_block(program: CompiledProgram) -> Block:
    (block,) = program.blocks
    return block


def test_q1_is_a_block_of_probes(tmp_path: Path) -> None:
    program = report_query("q1", tmp_path).program
    assert outline(program.tree) == "Block"
    assert program.row_wise
    assert relations(only_block(program)) == ["ls30(person loc)", "name#1(loc locName)", "name#2(person name)"]
    assert only_block(program).output == ("locName", "name")


def test_q2_has_its_coauthors_as_pairs(tmp_path: Path) -> None:
    block = only_block(report_query("q2", tmp_path).program)
    assert relations(block) == [
        "lsnow(person1 loc)",
        "ls30(person2 loc)",
        "name#1(loc locName)",
        "name#2(person1 author1Name)",
        "name#3(person2 author2Name)",
        "creator_creator(person1 person2)",
    ]
    pairs = block.statics[-1]
    assert pairs.patterns == 2
    assert pairs.rows == (6 + 2 + 6 + 2) + (
        4 + 2 + 2
    )  # everyone with himself and with others; and papers, by the other direction
    assert len({o.shape for o in block.occurrences}) == 1  # NOW and RANGE share their slots


def test_q3_has_its_union_as_one_relation(tmp_path: Path) -> None:
    program = report_query("q3", tmp_path).program
    assert outline(program.tree) == "Block"
    assert relations(only_block(program))[-1] == "creator_union_creator(person2 person1)"


def test_q4_has_its_sub_select_as_a_relation_below_the_aggregate(tmp_path: Path) -> None:
    program = report_query("q4", tmp_path).program
    assert outline(program.tree) == "Project(Extend(Group(Block)))"
    assert relations(only_block(program))[-1] == "select(person1 person2 numPub)"
    assert not program.row_wise


def test_q3_prime_keeps_of_its_union_what_is_read(tmp_path: Path) -> None:
    program = report_query("q3-prime", tmp_path).program
    assert outline(program.tree) == "Block"
    assert any({"anAuthor", "interestedAuthor"} <= set(s.variables) for s in only_block(program).statics)
    assert not {"p", "p1", "p2"} & {v for s in only_block(program).statics for v in s.variables}


@pytest.mark.parametrize("name", ["q1", "q2", "q3", "q4", "q1-prime", "q2-prime", "q3-prime", "q4-prime"])
def test_the_report_queries_are_answered(name: str, tmp_path: Path) -> None:
    query = report_query(name, tmp_path)
    outcome = query.run()
    assert sum(outcome.answers.values()) > 0
    assert query.judged(outcome.answers).equal


# ------------------------------------------------------------------ parts of the language
def program_of(body: str, folder: Path, select: str = "*") -> CompiledProgram:
    text = f"PREFIX : <{EX}> SELECT {select} FROM NAMED :S [NOW] AS ?n FROM NAMED :S [RANGE 1s] AS ?w WHERE {{ {body} }}"
    static = [(f"<{EX}a>", f"<{EX}p>", f"<{EX}b>"), (f"<{EX}b>", f"<{EX}p>", f"<{EX}c>")]
    world = World({f"{EX}S": [[]]}, static, {f"{EX}g": [(f"<{EX}a>", f"<{EX}q>", f"<{EX}c>")]})
    return register(text, world, folder).program


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("GRAPH ?n { ?a :p ?b } GRAPH ?w { ?b :p ?c }", "Block"),
        ("GRAPH ?n { ?a :p ?b } FILTER(?a != ?b)", "Block"),
        ("GRAPH ?n { ?a :p ?b } FILTER(YEAR(NOW()) > 2000)", "Project(Filter(Block))"),
        ("{ GRAPH ?n { ?a :p ?b } } UNION { GRAPH ?w { ?a :p ?b } }", "Project(Union(Block, Block))"),
        ("GRAPH ?n { ?a :p ?b } { { GRAPH ?w { ?b :p ?c } } UNION { ?b :p ?c } }", "Project(Union(Block, Block))"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?b :p ?c }", "Block"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?b :p ?c } GRAPH ?w { ?a :p ?d }", "Block"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?b :p ?c } GRAPH ?w { ?c :p ?d }", "Project(Join(Block, Block))"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?b :p ?c } OPTIONAL { ?c :p ?d }", "Project(LeftJoin(Block, Static))"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?b :p ?c FILTER(?a != ?c) } FILTER(!BOUND(?c))", "Block"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?b :p ?c FILTER(YEAR(NOW()) > 1) }", "Project(LeftJoin(Block, Static))"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { ?c :p ?d }", "Project(LeftJoin(Block, Static))"),
        ("{ { GRAPH ?n { ?a :p ?b } } UNION { GRAPH ?w { ?b :p ?a } } } OPTIONAL { ?b :p ?c }", "Project(Union(Block, Block))"),
        ("GRAPH ?n { ?a :p ?b } BIND(STR(?a) AS ?s) OPTIONAL { ?b :p ?c }", "Extend(Block)"),
        ("GRAPH ?n { ?a :p ?b } MINUS { ?b :p ?c }", "Block"),
        ("GRAPH ?n { ?a :p ?b } MINUS { ?c :p ?d }", "Block"),
        ("GRAPH ?n { ?a :p ?b } OPTIONAL { GRAPH ?w { ?b :p ?c } }", "Project(LeftJoin(Block, Block))"),
        ("GRAPH ?n { ?a :p ?b } MINUS { GRAPH ?w { ?a :q ?b } }", "Project(Minus(Block, Block))"),
        ("GRAPH ?n { ?a :p ?b } FILTER NOT EXISTS { ?b :p ?c }", "Block"),
        ("GRAPH ?n { ?a :p ?b } FILTER(!EXISTS { ?b :p ?c } && EXISTS { ?a :p ?c })", "Block"),
        ("GRAPH ?n { ?a :p ?b } FILTER(EXISTS { ?b :p ?c } || ?a = ?b)", "Project(Filter(Exists(Block, Static)))"),
        ("GRAPH ?n { ?a (:p|^:q)/:r ?b }", "Project(Union(Block, Block))"),
        ("GRAPH ?n { ?a !(:p|:q) ?b }", "Block"),
        ("GRAPH ?n { ?a :p+ ?b }", "Project(Closure(Block))"),
        ("GRAPH ?n { ?a :p* ?b }", "Project(Closure(Block, Distinct(Project(Union(Block, Block)))))"),
        ("GRAPH ?n { ?a :p ?b } ?b :p* ?c", "Block"),
        ("GRAPH ?n { ?a :p ?b } GRAPH ?w { ?b :p+ :c }", "Project(Join(Block, Closure(Block)))"),
        ("GRAPH ?n { ?a :p ?b } BIND(STR(?a) AS ?s)", "Extend(Block)"),
        ("GRAPH ?n { ?a :p ?b } VALUES ?a { :a :b }", "Project(Join(Block, Values))"),
        ("GRAPH ?n { ?a :p ?b } { SELECT ?b { GRAPH ?w { ?b :p ?c } } }", "Block"),
        ("GRAPH ?n { ?a :p ?b } { SELECT DISTINCT ?b { GRAPH ?w { ?b :p ?c } } }", "Project(Join(Block, Distinct(Block)))"),
    ],
)
def test_shapes(body: str, shape: str, tmp_path: Path) -> None:
    assert outline(program_of(body, tmp_path).tree) == shape


def test_static_parts_are_evaluated_once(tmp_path: Path) -> None:
    body = "GRAPH ?n { ?a :r ?b } { SELECT ?b (COUNT(*) AS ?k) { ?b :p ?c OPTIONAL { ?c :p ?d } FILTER(BOUND(?d)) } GROUP BY ?b }"
    block = only_block(program_of(body, tmp_path))
    assert relations(block) == ["n(a b)", "select(b k)"]
    assert block.statics[0].rows == 1


def test_several_patterns_of_a_window_are_numbered(tmp_path: Path) -> None:
    block = only_block(program_of("GRAPH ?n { ?a :p ?b . ?b :p ?a . ?a ?a ?c } ?a :p ?e . GRAPH :g { ?c :q ?d }", tmp_path))
    assert relations(block) == ["n#1(a b)", "n#2(b a)", "n#3(a c)", "p(a e)", "q(c d)"]
    assert [o.shape.places for o in block.occurrences] == [(0, -1, 1), (0, -1, 1), (0, 0, 1)]
    assert block.occurrences[0].shape == block.occurrences[1].shape


def test_an_order_that_nobody_can_tell_is_left_out(tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> SELECT ?a FROM NAMED :S [NOW] AS ?n {{ GRAPH ?n {{ ?a :p ?b }} }} ORDER BY ?b"
    world = World({f"{EX}S": [[]]})
    assert outline(register(text, world, tmp_path / "1").program.tree) == "Block"
    assert outline(register(f"{text} LIMIT 1", world, tmp_path / "2").program.tree) == "Order(Project(Order(Block)))"
    snapshots = register(text, world, tmp_path / "3", Settings("rstream")).program
    assert outline(snapshots.tree) == "Project(Order(Block))"


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("FILTER EXISTS { ?b :p ?c OPTIONAL { ?c :p ?d } }", None),  # nothing of the outside within the OPTIONAL
        ("FILTER EXISTS { ?b :p ?c OPTIONAL { ?b :p ?d } }", None),  # bound on its left side
        ("FILTER EXISTS { ?b :p ?c OPTIONAL { ?a :p ?c } }", ("a", "b", "c")),
        ("FILTER EXISTS { ?c :p ?d FILTER(?d = ?b) }", None),  # looked at where rows meet
        ("FILTER EXISTS { { ?c :p ?d FILTER(?d = ?b) } UNION { ?c :p ?b } }", ("b", "c", "d")),
        ("FILTER EXISTS { ?b :p ?c FILTER EXISTS { ?c :p ?d } }", ("b", "c", "d")),
        ("FILTER EXISTS { { SELECT ?c { ?c :p ?b OPTIONAL { ?a :p ?b } } } }", None),  # another ?a, and another ?b
        ("FILTER EXISTS { { SELECT ?b (COUNT(*) AS ?k) { ?b :p ?c } GROUP BY ?b } FILTER(?k > 1) }", None),
        ("FILTER EXISTS { { SELECT ?b { ?b :p ?c } LIMIT 1 } }", ("b",)),
    ],
)
def test_exists_is_evaluated_for_each_row_only_where_that_matters(
    body: str, reads: tuple[str, ...] | None, tmp_path: Path
) -> None:
    tree = program_of(f"GRAPH ?n {{ ?a :p ?b }} BIND(EXISTS {{ {body.removeprefix('FILTER EXISTS {')} AS ?e)", tmp_path).tree
    while not isinstance(tree, ExistsNode):
        (tree,) = tree.inputs
    assert tree.reads == reads


def test_joins_of_static_relations_are_known_before_anything_runs(tmp_path: Path) -> None:
    """Exactly, on each variable of both, in the queries of the report that have such relations."""
    for name in ("q2", "q3-prime"):
        compared = 0
        program = report_query(name, tmp_path / name).program
        for block in QueryPlanner(program, PlannerOptions()).blocks.values():
            view = block.statistics.view(block.rule.contents(block.sources[0]))
            held = {s.name: relation(program.store, s.at) for s in block.block.statics}
            for one, other in combinations(block.block.statics, 2):
                for variable in set(one.variables) & set(other.variables):
                    sides = [Counter(held[s.name].columns[variable].tolist()) for s in (one, other)]
                    expected = sum(count * sides[1][value] for value, count in sides[0].items())
                    assert view.join_size(one.name, other.name, variable) == expected
                    compared += 1
        assert compared, name
