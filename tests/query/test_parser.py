"""From SPARQL text to the algebra: an example of each construct."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import (
    Aggregate,
    Bgp,
    Call,
    Constant,
    Distinct,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Project,
    Slice,
    TriplePattern,
    Union,
    Values,
    Variable,
)
from cqels_opt.query.names import resolve
from cqels_opt.query.parser import parse

PREFIX = "PREFIX : <http://e/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
XSD = "http://www.w3.org/2001/XMLSchema#"
A, B, C, N, X, Y, Z = map(Variable, "abcnxyz")


def body(group: str) -> object:
    """The algebra of a group graph pattern."""
    query = parse(f"{PREFIX}SELECT * {group}")
    assert isinstance(query.body, Project)
    return query.body.input


def select(text: str) -> object:
    return parse(PREFIX + text).body


def triple(s: object, p: str, o: object) -> TriplePattern:
    return TriplePattern(s, f"<http://e/{p}>", o)  # type: ignore[arg-type]


def bgp(*triples: TriplePattern) -> Bgp:
    return Bgp(triples)


def integer(number: int) -> str:
    return f'"{number}"^^<{XSD}integer>'


P = bgp(triple(X, "p", Y))
Q = bgp(triple(X, "q", Z))


# ---------------------------------------------------------------- triples and terms
def test_lists_of_predicates_and_objects() -> None:
    assert body("{ ?x :p ?y, 1 ; a :T ; . ?y :q ?z . }") == bgp(
        triple(X, "p", Y),
        triple(X, "p", integer(1)),
        TriplePattern(X, "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://e/T>"),
        triple(Y, "q", Z),
    )


def test_blank_nodes_are_variables_that_cannot_be_named() -> None:
    first, second = Variable("_:.0"), Variable("_:.1")
    assert body("{ _:b :p [] . [ :q ?z ] :p _:b }") == bgp(
        triple(Variable("_:b"), "p", first), triple(second, "q", Z), triple(second, "p", Variable("_:b"))
    )
    assert parse(PREFIX + "SELECT * { _:b :p [ :q ?z ] }").variables == (Z,)


def test_collections() -> None:
    rdf = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#{}>"
    one, two = Variable("_:.0"), Variable("_:.1")
    assert body("{ ?x :p (1 ?y) . ?z :p () }") == bgp(
        triple(X, "p", one),
        TriplePattern(one, rdf.format("first"), integer(1)),
        TriplePattern(one, rdf.format("rest"), two),
        TriplePattern(two, rdf.format("first"), Y),
        TriplePattern(two, rdf.format("rest"), rdf.format("nil")),
        triple(Z, "p", rdf.format("nil")),
    )


@pytest.mark.parametrize(
    ("written", "term"),
    [
        ("007", f'"007"^^<{XSD}integer>'),
        ("-1.50", f'"-1.50"^^<{XSD}decimal>'),
        ("+1e6", f'"+1e6"^^<{XSD}double>'),
        (".5", f'".5"^^<{XSD}decimal>'),
        ("TRUE", f'"true"^^<{XSD}boolean>'),
        ('"a"', '"a"'),
        ("'a'@EN-gb", '"a"@en-gb'),
        ('"1"^^xsd:byte', f'"1"^^<{XSD}byte>'),
        ('"a"^^xsd:string', '"a"'),
        (r'"tab\t quote\" back\\ nl\n \u00e9\U0001F600 \u005Cn"', '"tab\\t quote\\" back\\\\ nl\\n é😀 \\\\n"'),
        ('"""a "b"\n\'c\' \\""""', '"a \\"b\\"\\n\'c\' \\""'),
        ("'''it''s'''", "\"it''s\""),
        ("<http://e/\\u00e9>", "<http://e/é>"),
        (r":a%20b\~c:d.e-f", "<http://e/a%20b~c:d.e-f>"),
    ],
)
def test_terms(written: str, term: str) -> None:
    assert body(f"{{ ?x :p {written} }}") == bgp(triple(X, "p", term))


@pytest.mark.parametrize(
    ("reference", "resolved"),
    [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y#s", "http://a/b/c/g?y#s"),
        ("#s", "http://a/b/c/d;p?q#s"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../../../g", "http://a/g"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("urn:x:y", "urn:x:y"),
    ],
)
def test_relative_iris_as_rfc_3986_resolves_them(reference: str, resolved: str) -> None:
    assert resolve("http://a/b/c/d;p?q", reference) == resolved


@pytest.mark.parametrize(
    ("base", "reference", "resolved"),
    [
        ("foo:///a/b", "c", "foo:///a/c"),
        ("HTTP://EX.org/x/", "a", "HTTP://EX.org/x/a"),
        ("http://a/b?", "#f", "http://a/b?#f"),
        ("http://a/b?q", "?", "http://a/b?"),
        ("http://a", "b", "http://a/b"),
        ("urn:a", "b", "urn:b"),
        ("http://[bad/x", "y", "http://[bad/y"),
        ("http://a\uff0fb/", "x", "http://a\uff0fb/x"),
    ],
)
def test_relative_iris_over_odd_bases(base: str, reference: str, resolved: str) -> None:
    assert resolve(base, reference) == resolved


def test_base_and_prefixes_hold_from_where_they_stand() -> None:
    text = "BASE <http://a/b/> PREFIX p: <c#> BASE <d/> PREFIX q: <e#> PREFIX p: <f#> SELECT * { ?x p:y q:z . ?x ?y <g> }"
    query = parse(text)
    assert query.base == "http://a/b/d/"
    assert query.body == Project(
        Bgp((TriplePattern(X, "<http://a/b/d/f#y>", "<http://a/b/d/e#z>"), TriplePattern(X, Y, "<http://a/b/d/g>"))), (X, Y)
    )


# ---------------------------------------------------------------- groups
def test_a_filter_applies_to_its_whole_group_and_does_not_end_a_pattern() -> None:
    condition = Call("&&", (Call(">", (Y, Constant(integer(1)))), Call("BOUND", (Z,))))
    assert body("{ ?x :p ?y FILTER(?y > 1) ?x :q ?z . FILTER bound(?z) }") == Filter(
        bgp(triple(X, "p", Y), triple(X, "q", Z)), condition
    )


def test_the_filter_of_an_optional_sees_both_sides() -> None:
    assert body("{ ?x :p ?y OPTIONAL { ?x :q ?z FILTER(?z = ?y) } }") == LeftJoin(P, Q, Call("=", (Z, Y)))


def test_the_filter_of_a_group_within_an_optional_does_not() -> None:
    assert body("{ ?x :p ?y OPTIONAL { { ?x :q ?z FILTER(?z = ?y) } } }") == LeftJoin(P, Filter(Q, Call("=", (Z, Y))))


def test_groups_unions_and_minus() -> None:
    assert body("{ { ?x :p ?y } UNION { ?x :q ?z } UNION { } }") == Union(Union(P, Q), bgp())
    assert body("{ { ?x :p ?y } { { } ?x :q ?z } }") == Join(P, Q)
    assert body("{ ?x :p ?y MINUS { ?x :q ?z } }") == Minus(P, Q)
    assert body("{ }") == bgp()
    assert body("{ OPTIONAL { ?x :q ?z } }") == LeftJoin(bgp(), Q)


def test_bind_ends_a_pattern() -> None:
    bound = Extend(P, Z, Call("+", (Y, Constant(integer(1)))))
    assert body("{ ?x :p ?y BIND(?y + 1 AS ?z) ?x :q ?z }") == Join(bound, Q)


def test_values() -> None:
    table = Values((X, Y), (("<http://e/a>", None), (integer(1), '"b"')))
    assert body("{ VALUES (?x ?y) { (:a UNDEF) (1 'b') } ?x :p ?y }") == Join(table, P)
    assert body("{ VALUES ?x { :a UNDEF } }") == Values((X,), (("<http://e/a>",), (None,)))
    assert body("{ VALUES () { () () } }") == Values((), ((), ()))
    assert select("SELECT ?x { ?x :p ?y } VALUES ?y { 1 }") == Project(Join(P, Values((Y,), ((integer(1),),))), (X,))


def test_exists() -> None:
    assert body("{ ?x :p ?y FILTER NOT EXISTS { ?x :q ?z } }") == Filter(P, Exists(Q, True))
    assert body("{ ?x :p ?y FILTER(?y > 1 || EXISTS { ?x :q ?z }) }") == Filter(
        P, Call("||", (Call(">", (Y, Constant(integer(1)))), Exists(Q, False)))
    )


# ---------------------------------------------------------------- expressions
@pytest.mark.parametrize(
    ("written", "expression"),
    [
        ("?x + 2 * ?y", Call("+", (X, Call("*", (Constant(integer(2)), Y))))),
        ("?x - ?y - ?z", Call("-", (Call("-", (X, Y)), Z))),
        ("?x -5 * ?y", Call("-", (X, Call("*", (Constant(integer(5)), Y))))),
        ("?x +5", Call("+", (X, Constant(integer(5))))),
        ("-5", Constant(integer(-5))),
        ("- ?x", Call("UNARY-", (X,))),
        ("+?x", Call("UNARY+", (X,))),
        ("!!?x", Call("!", (Call("!", (X,)),))),
        ("?x || ?y && ?z", Call("||", (X, Call("&&", (Y, Z))))),
        ("(?x || ?y) && ?z", Call("&&", (Call("||", (X, Y)), Z))),
        ("?x<?y", Call("<", (X, Y))),
        ("?x IN (1, ?y)", Call("IN", (X, Constant(integer(1)), Y))),
        ("?x not in ()", Call("NOT IN", (X,))),
        ("xsd:integer(?x)", Call(f"<{XSD}integer>", (X,))),
        ("strLen(?x)", Call("STRLEN", (X,))),
        ("uri(?x)", Call("IRI", (X,))),
        ("isURI(?x)", Call("ISIRI", (X,))),
        ("if(bound(?x), coalesce(?y, 1), now())", None),
        ("REGEX(?x, 'a', 'i')", Call("REGEX", (X, Constant('"a"'), Constant('"i"')))),
        (":a", Constant("<http://e/a>")),
    ],
)
def test_expressions(written: str, expression: Expression | None) -> None:
    if expression is None:
        inner = Call("COALESCE", (Y, Constant(integer(1))))
        expression = Call("IF", (Call("BOUND", (X,)), inner, Call("NOW", ())))
    assert body(f"{{ ?x :p ?y FILTER({written}) }}") == Filter(P, expression)


def test_long_chains_do_not_nest_too_deep() -> None:
    pattern = body("{ ?x :p ?y FILTER(" + " || ".join(f"?y = {n}" for n in range(3000)) + ") }")
    assert isinstance(pattern, Filter)
    assert len(parse("SELECT * { " + "?x ?y ?z . " * 5000 + "}").body.input.patterns) == 5000  # type: ignore[union-attr]


# ---------------------------------------------------------------- SELECT and its modifiers
def test_modifiers_in_sparql_s_order() -> None:
    text = "SELECT DISTINCT ?x (?y * 2 AS ?z) { ?x :p ?y } ORDER BY DESC(?y) ?x LIMIT 10 OFFSET 5"
    doubled = Extend(P, Z, Call("*", (Y, Constant(integer(2)))))
    assert select(text) == Slice(Distinct(Project(OrderBy(doubled, ((Y, True), (X, False))), (X, Z))), 5, 10)
    assert select("SELECT REDUCED ?x { ?x :p ?y } OFFSET 5") == Slice(Distinct(Project(P, (X,))), 5, None)


def test_groups_and_aggregates() -> None:
    text = """SELECT ?x (COUNT(DISTINCT ?y) AS ?n) (COUNT(*) + SUM(?y) AS ?a) (GROUP_CONCAT(?y; SEPARATOR=', ') AS ?b)
    { ?x :p ?y } GROUP BY ?x HAVING (COUNT(*) > 1) ORDER BY DESC(COUNT(DISTINCT ?y))"""
    agg = [Variable(f".agg{n}") for n in range(4)]
    group = Group(
        P,
        (X,),
        (
            (agg[0], Aggregate("COUNT", Y, distinct=True)),
            (agg[1], Aggregate("COUNT", None)),
            (agg[2], Aggregate("SUM", Y)),
            (agg[3], Aggregate("GROUP_CONCAT", Y, separator=", ")),
        ),
    )
    filtered = Filter(group, Call(">", (agg[1], Constant(integer(1)))))
    named = Extend(Extend(Extend(filtered, N, agg[0]), A, Call("+", (agg[1], agg[2]))), B, agg[3])
    assert select(text) == Project(OrderBy(named, ((agg[0], True),)), (X, N, A, B))


def test_one_group_of_all_rows() -> None:
    agg = Variable(".agg0")
    assert select("SELECT (MAX(?y) AS ?n) { ?x :p ?y }") == Project(
        Extend(Group(P, (), ((agg, Aggregate("MAX", Y)),), implicit=True), N, agg), (N,)
    )


def test_group_keys_that_are_expressions() -> None:
    key = Variable(".key0")
    keys = Extend(Extend(P, Z, Call("STR", (Y,))), key, Call("+", (Y, Constant(integer(1)))))
    assert select("SELECT ?x ?z { ?x :p ?y } GROUP BY ?x (STR(?y) AS ?z) (?y + 1)") == Project(
        Group(keys, (X, Z, key), ()), (X, Z)
    )


def test_a_sub_select_shows_what_it_selects() -> None:
    assert body("{ ?x :p ?y { SELECT ?x (COUNT(?a) AS ?n) { ?x :q ?a } GROUP BY ?x LIMIT 3 } }") == Join(
        P,
        Slice(
            Project(
                Extend(Group(bgp(triple(X, "q", A)), (X,), ((Variable(".agg0"), Aggregate("COUNT", A)),)), N, Variable(".agg0")),
                (X, N),
            ),
            0,
            3,
        ),
    )


def test_star_is_the_visible_variables_in_order_of_appearance() -> None:
    text = (
        "SELECT * { ?c :p _:b OPTIONAL { ?a :q ?c } MINUS { ?z :p ?x } { SELECT ?n { ?n :p ?y } } BIND(1 AS ?b) VALUES ?x { 1 } }"
    )
    assert parse(PREFIX + text).variables == (C, A, N, B, X)


def test_a_variable_selected_twice_is_one_column() -> None:
    assert parse(PREFIX + "SELECT ?x ?x ?q { ?x :p ?y }").variables == (X, Variable("q"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * { ?x :p ?y BIND(1 AS ?y) }", r"BIND cannot assign \?y: it already has a value"),
        ("SELECT * { ?x :p ?y { BIND(1 AS ?z) } BIND(2 AS ?z) }", r"BIND cannot assign \?z"),
        ("SELECT (1 AS ?y) { ?x :p ?y }", r"AS \?y: \?y already has a value"),
        ("SELECT (1 AS ?z) { ?x :p ?y } VALUES ?z { 1 2 }", r"AS \?z: \?z already has a value"),
        ("SELECT (1 AS ?z) (2 AS ?z) { ?x :p ?y }", r"AS \?z: \?z already has a value"),
        ("SELECT ?z (1 AS ?z) { ?x :p ?y }", r"AS \?z: \?z already has a value"),
        ("SELECT ?y { ?x :p ?y } GROUP BY ?x", r"\?y is not a group key.*SAMPLE\(\?y\)"),
        ("SELECT (?y + COUNT(*) AS ?z) { ?x :p ?y } GROUP BY ?x", r"\?y is not a group key"),
        ("SELECT * { ?x :p ?y } GROUP BY ?x", r"SELECT \* cannot be grouped"),
        ("SELECT ?x { ?x :p ?y } GROUP BY ?x (1 AS ?y)", r"GROUP BY cannot assign \?y"),
        ("SELECT ?x { ?x :p ?y FILTER(COUNT(*) > 1) }", "COUNT is an aggregate and cannot stand in FILTER"),
        ("SELECT ?x { ?x :p ?y BIND(SUM(?y) AS ?z) }", "SUM is an aggregate and cannot stand in BIND"),
        ("SELECT (SUM(COUNT(?y)) AS ?z) { ?x :p ?y }", "COUNT is an aggregate and cannot stand inside SUM: .*sub-select"),
        ("SELECT ?x { ?x :p ?y } GROUP BY (COUNT(?y) AS ?z)", "cannot stand in GROUP BY"),
        ("SELECT (SUM(*) AS ?z) { ?x :p ?y }", r"SUM\(\*\) has no meaning"),
        ("SELECT (SUM(?x; SEPARATOR=',') AS ?z) { ?x :p ?y }", "only GROUP_CONCAT takes a SEPARATOR"),
        ("SELECT * { _:a :p ?y OPTIONAL { _:a :q ?z } }", "the blank node _:a is used in two basic graph patterns"),
        ("SELECT * { VALUES (?x ?y) { (1) } }", "a row of VALUES has 1 value for 2 variables"),
        ("SELECT * { VALUES (?x ?x) { (1 2) } }", "a variable stands twice in VALUES"),
        ("SELECT * { ?x :p ?y } LIMIT 99999999999999999999", "this number is too large"),
    ],
)
def test_what_a_query_cannot_mean(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse(PREFIX + text)


def test_characters_by_number() -> None:
    """In strings and IRIs they are characters, which end nothing; elsewhere SPARQL 1.2 refuses them."""
    prologue = "PREFIX : <http://e/> "
    by_number = r'SELECT ?s { ?s :v "\u0022a\\u0041", """\u0022""\u0022""", <http://e/\u0041> }'
    assert parse(prologue + by_number).body == parse(prologue + r'SELECT ?s { ?s :v "\"a\\u0041", "\"\"\"\"", :A }').body
    for text in (r"SELECT ?s { :\u0041 :v ?s }", r"\u0053ELECT ?s { :a :v ?s }", r"SELECT ?\u0073 { :a :v ?s }"):
        with pytest.raises(QueryError, match=r"unexpected (.\\|\?)"):
            parse(prologue + text)


def test_half_of_a_surrogate_pair_is_no_character() -> None:
    with pytest.raises(QueryError, match=r"query:1:35: unexpected"):
        parse(r"PREFIX : <http://e/> ASK { ?s :v :\uD800 }")
