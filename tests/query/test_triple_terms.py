"""SPARQL 1.2's triple terms, reifiers and annotations in queries: parsing, functions, and errors."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Bgp, Call, Constant, Construct, Project, TriplePattern, TripleTerm, Variable
from cqels_opt.query.evaluate import compile_expression
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text
from cqels_opt.query.values import order_key

PREFIX = "PREFIX : <urn:> "
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
S, OBJECT = Variable("s"), Variable("o")
TERM = TripleTerm(S, "<urn:p>", OBJECT)


def patterns(body: str) -> list[TriplePattern]:
    """The triple patterns of a group, blank nodes without labels as ``_:0``, ``_:1`` …"""
    found = parse(f"{PREFIX} SELECT * {{ {body} }}", "cqels").body
    assert isinstance(found, Project) and isinstance(found.input, Bgp)
    return list(found.input.patterns)


def node(number: int) -> Variable:
    return Variable(f"_:.{number}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("?x :says <<( ?s :p ?o )>>", [TriplePattern(Variable("x"), "<urn:says>", TERM)]),
        (
            "?x :says <<( :a a 1 )>>",
            [
                TriplePattern(
                    Variable("x"),
                    "<urn:says>",
                    '<<( <urn:a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "1"^^<http://www.w3.org/2001/XMLSchema#integer> )>>',
                )
            ],
        ),
        ("<< ?s :p ?o >> :c ?v", [TriplePattern(node(0), REIFIES, TERM), TriplePattern(node(0), "<urn:c>", Variable("v"))]),
        ("<< ?s :p ?o ~ ?r >>", [TriplePattern(Variable("r"), REIFIES, TERM)]),
        (
            "<< ?s :p ?o ~ :r >> :c ?v",
            [TriplePattern("<urn:r>", REIFIES, TERM), TriplePattern("<urn:r>", "<urn:c>", Variable("v"))],
        ),
        (
            "?s :p ?o {| :c ?v ; :d 1 |}",
            [
                TriplePattern(S, "<urn:p>", OBJECT),
                TriplePattern(node(0), REIFIES, TERM),
                TriplePattern(node(0), "<urn:c>", Variable("v")),
                TriplePattern(node(0), "<urn:d>", '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'),
            ],
        ),
        (
            "?s :p ?o ~ :r {| :c ?v |} ~",
            [
                TriplePattern(S, "<urn:p>", OBJECT),
                TriplePattern("<urn:r>", REIFIES, TERM),
                TriplePattern("<urn:r>", "<urn:c>", Variable("v")),
                TriplePattern(node(0), REIFIES, TERM),
            ],
        ),
        (
            "<< << ?s :p ?o >> :q :z >> :c ?v",
            [
                TriplePattern(node(0), REIFIES, TERM),
                TriplePattern(node(1), REIFIES, TripleTerm(node(0), "<urn:q>", "<urn:z>")),
                TriplePattern(node(1), "<urn:c>", Variable("v")),
            ],
        ),
    ],
)
def test_what_is_read(body: str, expected: list[TriplePattern]) -> None:
    assert patterns(body) == expected


def test_in_templates_a_reifier_is_a_new_node_of_each_solution() -> None:
    query = parse(PREFIX + "CONSTRUCT { ?s :p ?o {| :c ?v |} } WHERE { ?s :p ?o ; :c ?v }", "cqels")
    assert isinstance(query.form, Construct)
    assert [t.p for t in query.form.template] == ["<urn:p>", REIFIES, "<urn:c>"]


@pytest.mark.parametrize("dialect", ["cqels", "csparql", "sparqlstream", "streaming-sparql"])
def test_only_rsp_ql_reads_a_quoted_triple_in_an_expression(dialect: str) -> None:
    text = PREFIX + "SELECT * { ?s :p ?o BIND (<< ?s :p ?o >> AS ?t) }"
    with pytest.raises(QueryError, match="a quoted triple cannot stand here"):
        parse(text, dialect)
    star = parse(
        PREFIX
        + "SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S] { WINDOW :w { ?s :p ?o } BIND (<< ?s :p ?o >> AS ?t) }"
    )
    assert Call("TRIPLE", (S, Constant("<urn:p>"), OBJECT)) in _expressions(star.body)


def _expressions(node: object) -> list[object]:
    inner = getattr(node, "input", None)
    return [getattr(node, "expression", None), *(_expressions(inner) if inner is not None else [])]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("?s :p+ ?o {| :q 1 |}", "a property path cannot be annotated"),
        ("?s ?p << :a :b >>", "unexpected '>'"),
        ("<< ?s :p (1 2) >> :q ?v", "unexpected '('"),
        ("VALUES ?t { << :a :b :c >> }", "a quoted triple cannot stand here"),
        ("?x :p " + "<<( :a :p " * 150 + ":b" + " )>>" * 150, "triple terms are nested deeper than 100 levels"),
        ("?x :p " + "<<( ?a :p " * 50_000 + ":b" + " )>>" * 50_000, "the query is nested too deeply"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        parse(f"{PREFIX} SELECT * {{ {body} }}", "cqels")
    assert message in error.value.message


TEXTS = [
    "SELECT ?s ?v WHERE { << ?s :p ?o >> :c ?v }",
    "SELECT ?s WHERE { ?x :says <<( ?s :p <<( ?a ?b 1.5 )>> )>> . ?s :p ?o ~ ?r {| :c ?w |} }",
    'SELECT (SUBJECT(?t) AS ?s) WHERE { VALUES ?t { <<( :a :b <<( :c a "x"@en )>> )>> } FILTER (isTRIPLE(?t) && ?t = <<( :a :b ?u )>>) }',
    "SELECT ?x WHERE { ?x :p* <<( ?s :p ?o )>> }",
    "CONSTRUCT { ?s :said <<( ?s :p ?o )>> } WHERE { ?s :p ?o }",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dialect", ["cqels", "rspql", "csparql"])
def test_what_is_printed_is_read_as_the_same_in_any_dialect(text: str, dialect: str) -> None:
    """A printed text names generated nodes, so it is printed once more and compared then."""
    once = to_text(parse(PREFIX + text, "cqels"), dialect)
    assert to_text(parse(once, dialect), dialect) == to_text(parse(to_text(parse(once, dialect), dialect), dialect), dialect)
    assert "<<(" in once or "ISTRIPLE" in once


A = "<<( <urn:a> <urn:p> <urn:b> )>>"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("TRIPLE(:a, :p, :b)", A),
        ('TRIPLE(:a, :p, "x")', '<<( <urn:a> <urn:p> "x" )>>'),
        ('TRIPLE("a", :p, :b)', None),
        ("TRIPLE(:a, 1, :b)", None),
        ("TRIPLE(?t, :p, :b)", None),
        ("SUBJECT(?t)", "<urn:a>"),
        ("PREDICATE(?t)", "<urn:p>"),
        ("OBJECT(?t)", "<urn:b>"),
        ("SUBJECT(:a)", None),
        ("isTRIPLE(?t)", "true"),
        ("isTRIPLE(:a)", "false"),
        ("isIRI(?t)", "false"),
        ("isLITERAL(?t) || isBLANK(?t)", "false"),
        ("STR(?t)", None),
        ("?t = <<( :a :p :b )>>", "true"),
        ("<<( :a :p 1 )>> = <<( :a :p 1.0 )>>", "true"),
        ("sameTerm(<<( :a :p 1 )>>, <<( :a :p 1.0 )>>)", "false"),
        ('<<( :a :p 1 )>> = <<( :b :p "x" )>>', "false"),
        ('<<( :a :p 1 )>> = <<( :a :p "x" )>>', None),
        ("?t < ?t", None),
        ("?t IN (:a, <<( :a :p :b )>>)", "true"),
        ("IF(?t != :a, 1, 2)", "1"),
    ],
)
def test_functions(expression: str, value: str | None) -> None:
    body = parse(f"{PREFIX} SELECT ({expression} AS ?x) {{ }}", "cqels").body
    found = next(e for e in _expressions(body) if e is not None)
    run = compile_expression(found)  # type: ignore[arg-type]
    if value is None:
        with pytest.raises(ExpressionError):
            run({"t": A})
        return
    got = run({"t": A})
    assert got == value or got.startswith(f'"{value}"^^')


def test_the_order_of_terms() -> None:
    """Triple terms come last, compared by component; IRIs compare by character, so a prefix precedes."""
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    rising = [
        None,
        "_:b",
        "<urn:a>",
        "<urn:a1>",
        '"10"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"x"',
        f'<<( <urn:a> <urn:p> "9"^^<{integer}> )>>',
        f'<<( <urn:a> <urn:p> "10"^^<{integer}> )>>',
        "<<( <urn:a> <urn:p> <<( <urn:a> <urn:p> <urn:b> )>> )>>",
        "<<( <urn:a1> <urn:p> <urn:a> )>>",
    ]
    assert sorted(dict.fromkeys(rising[::-1]), key=order_key) == rising
