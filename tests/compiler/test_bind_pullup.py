"""BINDs late: where they end up, what filters become below them, and the answers of random groups with BINDs in the middle."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from by_definition import difference
from case_shrinking import shrunk
from local_runs import Cut, World, register
from random_cases import EX, FIXED, GRAPHS, MOVING, NAMED, VARIABLES, Case, Group, Maker, Nested, Part, make, used

from cqels_opt.errors import QueryError
from cqels_opt.operators.algebra import expression_rows
from cqels_opt.operators.algebra.extend import ExtendNode
from cqels_opt.operators.compiled_query import Tree
from cqels_opt.operators.rows import Rows
from cqels_opt.query.algebra import Expression
from cqels_opt.verify import Element

from .test_compile import only_block, outline, program_of, relations

N = "GRAPH ?n { ?a :p ?v }"
W = "GRAPH ?w { ?a :q ?x }"


# ------------------------------------------------------------------ where BINDs end up
@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (f"{N} BIND(?v * 2 AS ?k) {W} ?x :r ?y", "Extend(Block)"),
        (f"{{ {N} BIND(?v * 2 AS ?k) }} {{ {W} BIND(STR(?x) AS ?s) }}", "Extend(Extend(Block))"),
        (f"{N} BIND(?v * 2 AS ?k) BIND(?k + 1 AS ?m) {W}", "Extend(Extend(Block))"),
        (f"{N} BIND(NOW() AS ?k) {W}", "Extend(Block)"),
        # the other side names the variable: it is joined on
        (f"{{ {N} BIND(?v * 2 AS ?k) }} GRAPH ?w {{ ?a :q ?k }}", "Project(Join(Extend(Block), Block))"),
        # the expression reads what only the other side binds, and so reads nothing
        (f"{{ {N} BIND(?x AS ?k) }} {W}", "Project(Join(Extend(Block), Block))"),
        # what a row binds decides the draw
        (f"{{ {N} BIND(RAND() AS ?k) }} {W}", "Project(Join(Extend(Block), Block))"),
        (f"{{ {N} BIND(BNODE() AS ?k) }} {W}", "Project(Join(Extend(Block), Block))"),
        # branches of a UNION
        (
            f"{{ {{ {N} BIND(1 AS ?k) }} UNION {{ GRAPH ?n {{ ?a :s ?v }} BIND(2 AS ?k) }} }} {W}",
            "Project(Union(Extend(Block), Extend(Block)))",
        ),
        (
            f"{{ {N} }} UNION {{ GRAPH ?n {{ ?a :s ?v }} }} BIND(?v + 1 AS ?k) {W}",
            "Project(Extend(Union(Block, Block)))",
        ),
        # a sub-select melts into its surroundings with its BINDs
        (f"{{ SELECT ?a (?v * 2 AS ?k) {{ {N} }} }} {W}", "Extend(Block)"),
        (f"{{ SELECT ?a ?m {{ {N} BIND(?v * 2 AS ?k) BIND(?k + 1 AS ?m) }} }} {W}", "Extend(Extend(Block))"),
        (f"{{ SELECT ?a {{ {N} BIND(?v * 2 AS ?k) }} }} {W}", "Block"),
        (f"{{ SELECT ?a (RAND() AS ?k) {{ {N} }} }} {W}", "Project(Join(Project(Extend(Block)), Block))"),
        # OPTIONAL and MINUS stay where they are
        (f"{N} BIND(?v * 2 AS ?k) OPTIONAL {{ {W} }}", "Project(LeftJoin(Extend(Block), Block))"),
    ],
)
def test_where_a_bind_ends_up(body: str, shape: str, tmp_path: Path) -> None:
    assert outline(program_of(body, tmp_path).tree) == shape


def test_patterns_on_both_sides_of_a_bind_are_one_block(tmp_path: Path) -> None:
    block = only_block(program_of(f"{N} BIND(?v * 2 AS ?k) {W} GRAPH :g {{ ?x :r ?y }}", tmp_path))
    assert relations(block) == ["n(a v)", "w(a x)", "r(x y)"]


# ------------------------------------------------------------------ filters below them
@pytest.mark.parametrize(
    ("condition", "below"),
    [
        ("?v > 1", "(> ?v 1)"),
        ("?k > 1", "(> (* ?v 2) 1)"),
        ("?k > 1 && ?v < 5", "(> (* ?v 2) 1) (< ?v 5)"),
        ("COALESCE(?k, 7) = 7 || ?v IN (?k, 3)", "(|| (= (COALESCE (* ?v 2) 7) 7) (IN ?v (* ?v 2) 3))"),
        ("IF(?k, ?v, ?k) = 1", "(= (IF (* ?v 2) ?v (* ?v 2)) 1)"),
    ],
)
def test_a_filter_takes_the_expression_for_the_variable(condition: str, below: str, tmp_path: Path) -> None:
    program = program_of(f"{N} BIND(?v * 2 AS ?k) {W} FILTER({condition})", tmp_path)
    assert outline(program.tree) == "Extend(Block)"
    assert " ".join(shown(f.condition) for f in only_block(program).filters) == below


@pytest.mark.parametrize(
    ("bind", "condition", "shape"),
    [
        ("?v * 2", "BOUND(?k)", "Project(Filter(Extend(Block)))"),
        ("?v * 2", "!BOUND(?k) || ?k > 1", "Project(Filter(Extend(Block)))"),
        ("?v * 2", "BOUND(?v)", "Extend(Block)"),
        ("?v * 2", "EXISTS { ?k :r ?y }", "Project(Filter(Exists(Extend(Block), Static)))"),
        ("?v * 2", "EXISTS { ?a :r ?y }", "Extend(Block)"),
        ("NOW()", "?k > 1", "Project(Filter(Extend(Block)))"),
        ("?v * 2", "RAND() < 2", "Project(Filter(Extend(Block)))"),
        ("RAND()", "?k < 2", "Project(Filter(Extend(Block)))"),
        ("RAND()", "?v < 2", "Extend(Block)"),
    ],
)
def test_some_filters_stay_above(bind: str, condition: str, shape: str, tmp_path: Path) -> None:
    assert outline(program_of(f"{N} BIND({bind} AS ?k) FILTER({condition})", tmp_path).tree) == shape


def test_binds_that_double_do_not_grow_without_bound(tmp_path: Path) -> None:
    binds = "".join(f" BIND(?k{i} + ?k{i} AS ?k{i + 1})" for i in range(30))
    program = program_of(f"{N} BIND(?v AS ?k0){binds} FILTER(?k30 > 1)", tmp_path)
    assert depth(program.tree, "Filter") > 0
    assert len(nodes(program.tree, ExtendNode)) == 31


def test_filters_under_the_branches_of_a_union(tmp_path: Path) -> None:
    body = f"{{ {{ {N} BIND(?v + 1 AS ?k) }} UNION {{ GRAPH ?n {{ ?a :s ?v }} BIND(?v + 2 AS ?k) }} }} {W} FILTER(?k > 1)"
    program = program_of(body, tmp_path)
    assert [shown(f.condition) for block in program.blocks for f in block.filters] == ["(> (+ ?v 1) 1)", "(> (+ ?v 2) 1)"]


def shown(expression: Expression) -> str:
    """An expression in brackets."""
    if hasattr(expression, "arguments"):
        return f"({' '.join([expression.function, *map(shown, expression.arguments)])})"
    if hasattr(expression, "term"):
        return str(expression.term).partition("^^")[0].strip('"')
    return f"?{expression.name}" if hasattr(expression, "name") else "EXISTS"


def nodes(tree: Tree, kind: type) -> list[Tree]:
    return [n for part in tree.inputs for n in nodes(part, kind)] + ([tree] if isinstance(tree, kind) else [])


def depth(tree: Tree, name: str) -> int:
    return outline(tree).count(name)


# ------------------------------------------------------------------ on how many rows they are evaluated
def at(t: int, a: str, p: str, o: str) -> Element:
    return Element(t, ((f"<{EX}{a}>", f"<{EX}{p}>", o),))


def number(n: int) -> str:
    return f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def test_a_bind_is_evaluated_on_the_rows_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred rows, of which the join leaves ten and the filter on the variable three."""
    text = """PREFIX : <http://ex.org/>
    SELECT ?a ?k FROM NAMED :S [NOW] AS ?n
    WHERE { GRAPH ?n { ?a :val ?v } BIND(CONCAT("n", STR(?v)) AS ?k) ?a :near ?y FILTER(STRENDS(?k, "7")) }"""
    elements = [at(1000, f"p{i % 50}", "val", number(i)) for i in range(100)]
    near = [(f"<{EX}p{i}>", f"<{EX}near>", f"<{EX}y>") for i in (7, 11, 17, 23, 27)]
    query = register(text, World({f"{EX}S": [elements]}, near), tmp_path)
    seen: list[int] = []
    values = expression_rows.values

    def counting(rows: Rows, *others: object) -> object:
        seen.append(len(rows))
        return values(rows, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(expression_rows, "values", counting)
    outcome = query.run(Cut("1000"))
    assert sum(seen) == sum(outcome.answers.values()) == 6
    monkeypatch.undo()
    assert query.judged(outcome.answers).equal


# ------------------------------------------------------------------ random groups
class WithBinds(Maker):
    """Groups with BINDs between their patterns, and filters that read them."""

    def file(self, lateness: int) -> list[Element]:
        """A few full seconds: joins should find something."""
        times = [10_000 + 500 * i for i in range(6)]
        return [Element(t, tuple(dict.fromkeys(self.triple(MOVING) for _ in range(5)))) for t in times]

    def world(self, lateness: int) -> World:
        found = super().world(lateness)
        default = {self.triple(FIXED) for _ in range(40)}
        graphs = {f"{EX}{g}": sorted({self.triple(NAMED) for _ in range(15)}) for g in GRAPHS}
        return replace(found, default=sorted(default), graphs=graphs)

    def window(self) -> str:
        return self.rng.choice(["RANGE 2000 ms", "RANGE 1000 ms", "RANGE 2000 ms TUMBLING", "TRIPLES 4"])

    def node(self, kind: str) -> str:
        return "?" + self.rng.choice(VARIABLES[kind])

    def patterns(self, predicates: dict[str, tuple[str, str]], most: int = 1, plain: bool = True) -> Group:
        return super().patterns(predicates, most, plain)

    def bind(self) -> str:
        self.fresh += 1
        rng = self.rng
        known = [f"?k{i}" for i in range(1, self.fresh)]
        options = [self.number(), self.number(), self.text(), f"({self.condition()})", "?v", "?a", "?v / ?w", "BNODE()", "NOW()"]
        if known:
            options += [f"({rng.choice(known)} + {self.number()})", f"STR({rng.choice(known)})"] * 2
        return f"BIND({rng.choice(options)} AS ?k{self.fresh})"

    def reading(self) -> str:
        """A filter on what BINDs make, on what they may make elsewhere, or on other variables."""
        rng = self.rng
        k = f"?k{rng.randint(1, max(1, self.fresh))}"
        n = self.number()
        conditions = [
            *(f"{k} {op} {n}" for op in ("<", ">=", "=", "!=")),
            *(f"BOUND({k})", f"!BOUND({k})", f"COALESCE({k}, {n}) < 2", f"COALESCE({n}, {k}) = {k}"),
            *(f"IF({k} > 0, {k}, {n}) = 1", f"IF(BOUND(?v), {k}, 1) > 0", f"{k} IN ({n}, 2, STR({k}))", f"{n} NOT IN ({k}, 1)"),
            *(f"({k} > 0 || ?v = 1)", f"({k} > 0 && {self.condition(0)})", f"!({k})", k, f"isNumeric({k})", f"isIRI({k})"),
            *(f"STR({k}) = STR({n})", f"DATATYPE({k}) = xsd:integer", f"STRLEN(STR({k})) > 1", f"{k} = ?a", self.condition()),
            *(f"EXISTS {{ {self.pattern(MOVING)} FILTER({k} = {k}) }}", f"REGEX(STR({k}), '1')", f"sameTerm({k}, ?v)"),
        ]
        return f"FILTER({rng.choice(conditions)})" if self.rng.random() < 0.9 else f"FILTER EXISTS {{ ?b :knows {k} }}"

    def some_parts(self, depth: int) -> Group:
        rng = self.rng
        parts: list[Part] = [self.some(), self.bind(), self.some()]
        for _ in range(rng.choice([0, 1, 1, 2])):
            roll = rng.random()
            if roll < 0.4:
                parts.append(self.reading())
            elif roll < 0.55:
                parts.append(self.bind())
            elif roll < 0.75 or not depth:
                parts.append(self.some())
            elif roll < 0.85:
                parts.append(Nested("", (self.some_parts(depth - 1), self.some_parts(depth - 1))))
            elif roll < 0.9:
                parts.append(Nested("", (self.some_parts(depth - 1),)))
            elif roll < 0.95:
                parts.append(Nested(rng.choice(["OPTIONAL", "MINUS"]), (self.some_parts(depth - 1),)))
            else:
                inner = self.some_parts(depth - 1)
                names = used(inner)
                chosen = " ".join(f"?{n}" for n in rng.sample(names, rng.randint(1, len(names)))) if names else "*"
                parts.append(Nested("", (Group((Nested(f"SELECT {chosen} WHERE", (inner,)),)),)))
        head, *rest = parts
        rng.shuffle(rest)
        return Group((head, *rest))

    def case(self) -> Case:
        found = super().case()
        body = Group((self.in_window(), *self.some_parts(2).parts))
        names = used(body)
        chosen = self.rng.sample(names, min(len(names), self.rng.choice([2, 4, 9])))
        distinct = "DISTINCT " if self.rng.random() < 0.2 else ""
        settings = replace(found.settings, drain=False)
        select = distinct + " ".join(f"?{n}" for n in chosen)
        return replace(found, body=body, select=select, modifiers=(), settings=settings, replaced={})


def made(seed: int) -> Case:
    """The case of a seed."""
    return make(7_000 + seed, WithBinds)


def wrong(case: Case, seed: int) -> str | None:
    """What is wrong with the answers of a case under two cuts, if anything."""
    with TemporaryDirectory() as folder:
        query = register(case.query(), case.world, Path(folder), case.settings)
        whole = query.run(Cut(random.Random(seed).choice(["5", "700ms", "1000"])))
        if reason := difference(query, whole.answers):
            return reason
        again = query.run(Cut("3", "random", 2, 2, seed))
        return None if again.answers == whole.answers else "another cut has other answers"


def fails(case: Case, seed: int) -> bool:
    try:
        return wrong(case, seed) is not None
    except QueryError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, int(os.environ.get("CQELS_OPT_CASES", "30")), 15))
def test_random_groups_with_binds_in_the_middle(first: int) -> None:
    late = 0
    for seed in range(first, first + 15):
        case = made(seed)
        if (reason := wrong(case, seed)) is not None:
            small = shrunk(case, lambda c, s=seed: fails(c, s), budget=300)  # type: ignore[misc]
            pytest.fail(f"seed {seed}:\n{small}\n{wrong(small, seed) or reason}")
        late += "BIND" in case.text
    assert late
