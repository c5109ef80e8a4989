"""The comparison of answers, and the verdict."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cqels_opt.errors import DataError, RunError
from cqels_opt.query.parser import parse
from cqels_opt.verify import Answers, Element, Inputs, Options, compare, evaluate, judge, read_answers, report
from cqels_opt.verify.isomorphic import isomorphic
from cqels_opt.verify.model import Evaluator

XSD = "http://www.w3.org/2001/XMLSchema#"


def typed(value: str, datatype: str) -> str:
    return f'"{value}"^^<{XSD}{datatype}>'


def one(term: str, time: int = 1, count: int = 1) -> Answers:
    return Counter({(time, "+", frozenset([("x", term)])): count})


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (typed("1.50", "decimal"), typed("1.5", "decimal")),
        (typed("007", "integer"), typed("7", "integer")),
        (typed("-0", "integer"), typed("0", "integer")),
        (typed("100", "decimal"), typed("100.0", "decimal")),
        (typed("0.333333333333333333", "decimal"), typed("0.3333333333333333333333", "decimal")),
        (typed("1.0E1", "double"), typed("10", "double")),
        (typed("INF", "double"), typed("INF", "double")),
        (typed("NaN", "double"), typed("NaN", "double")),
        ("_:s0_b", "_:other"),
    ],
)
def test_equal(a: str, b: str) -> None:
    assert compare(one(a), one(b)) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (typed("1", "decimal"), typed("1", "integer")),
        (typed("1", "integer"), typed("2", "integer")),
        (typed("1234567890123456789", "integer"), typed("1234567890123456000", "integer")),
        ('"1.50"', '"1.5"'),
        (typed("many", "integer"), typed("several", "integer")),
        (typed("1.00000000000001", "decimal"), typed("1", "decimal")),
        ('"a"@en', '"a"'),
        ("<a:b>", "<a:c>"),
    ],
)
def test_different(a: str, b: str) -> None:
    assert len(compare(one(a), one(b))) == 1


def test_blank_nodes_of_one_row_are_told_apart() -> None:
    def pair(x: str, y: str) -> Answers:
        return Counter({(1, "+", frozenset([("x", x), ("y", y)])): 1})

    assert compare(pair("_:a", "_:b"), pair("_:d", "_:c")) == []
    assert compare(pair("_:a", "_:a"), pair("_:b", "_:b")) == []
    assert len(compare(pair("_:a", "_:a"), pair("_:a", "_:b"))) == 1


def test_counts_times_and_operators_matter() -> None:
    (difference,) = compare(one("<a:b>", count=3), one("<a:b>", count=1))
    assert difference.missing == (("+", frozenset([("x", "<a:b>")]), 2),)
    assert [d.time for d in compare(one("<a:b>", time=2), one("<a:b>", time=1))] == [1, 2]


def test_parts_of_a_concatenation_come_in_any_order() -> None:
    assert compare(one('"b, a"'), one('"a, b"'), {"x": ", "}) == []
    assert compare(one('"b, a"'), one('"a, b"')) != []
    assert compare(one('"b, a"'), one('"a, c"'), {"x": ", "}) != []


def test_the_report_names_instant_and_rows() -> None:
    differences = compare(one("<a:b>", 5, 2) + one('"only here"', 7), one("<a:c>", 5))
    assert report(differences) == 'at 5:\n  missing + ?x=<a:b> × 2\n  extra + ?x=<a:c>\nat 7:\n  missing + ?x="only here"'
    assert report(differences, 1).endswith("and 1 instants more")
    assert report([]) == ""


def test_read_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    bindings = {
        "a": {"type": "uri", "value": "a:b"},
        "b": {"type": "literal", "value": 'x "y"\n', "xml:lang": "EN"},
        "c": {"type": "literal", "value": "3", "datatype": XSD + "integer"},
        "d": {"type": "bnode", "value": "z"},
    }
    line = json.dumps({"time": 5, "op": "+", "bindings": bindings})
    path.write_text(f"{line}\n{line}\n")
    row = frozenset([("a", "<a:b>"), ("b", '"x \\"y\\"\\n"@en'), ("c", typed("3", "integer")), ("d", "_:z")])
    assert read_answers(path) == Counter({(5, "+", row): 2})


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"time": 1, "op": "+"}', '{"time": 1, "op": "+", "bindings": {"x": {"type": "no", "value": ""}}}']
)
def test_a_line_that_is_no_answer_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"time": 1, "op": "+", "bindings": {}}\n' + line)
    with pytest.raises(DataError, match=r"a\.jsonl:2: not an answer"):
        read_answers(path)


def test_answers_out_of_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"time": 2, "op": "+", "bindings": {}}\n{"time": 1, "op": "+", "bindings": {}}\n')
    with pytest.raises(DataError, match="time 1 comes after 2"):
        read_answers(path)


# ------------------------------------------------------------------ the verdict
STREAM = "http://ex.org/S"


def numbers(*values: str) -> Inputs:
    return Inputs({STREAM: [Element(t, (("<a:s>", "<a:p>", value),)) for t, value in enumerate(values, 1)]})


def query(body: str) -> str:
    return f"SELECT ?x FROM NAMED <{STREAM}> [RANGE 10 milliseconds] AS ?w {{ GRAPH ?w {{ ?s <a:p> ?x }} {body} }}"


def test_a_verdict_says_what_differs() -> None:
    found, inputs = parse(query("")), numbers('"a"', '"b"')
    right = evaluate(found, inputs, Options())
    assert judge(found, inputs, Options(), right).equal
    verdict = judge(found, inputs, Options(), right - one('"b"', 2) + one('"c"', 2))
    assert [d.time for d in verdict.differences] == [2]
    assert verdict.text().splitlines() == [
        "2 rows expected by pyoxigraph at 2 instants: different",
        "at 2:",
        '  missing + ?x="b"',
        '  extra + ?x="c"',
        "the first instant that differs is 2:",
        "  expected 1 row",
        '    + ?x="b"',
        "  the answer has 1 row",
        '    + ?x="c"',
        "  window w holds 2 elements",
        '    1 <a:s> <a:p> "a"',
        '    2 <a:s> <a:p> "b"',
    ]


def test_the_first_instant_that_differs_shows_a_few_of_many() -> None:
    found, inputs = parse(query("")), numbers(*(f'"{n}"' for n in range(14)))
    verdict = judge(found, inputs, Options(operator="rstream"), Counter())
    assert verdict.first is not None and verdict.first.time == 1 and not verdict.first.got
    all_of_it = judge(found, inputs, Options(operator="rstream", policy="p:9"), Counter())
    lines = all_of_it.text(limit=2).splitlines()
    assert lines[lines.index("the first instant that differs is 9:") :] == [
        "the first instant that differs is 9:",
        "  expected 9 rows",
        '    = ?x="0"',
        '    = ?x="1"',
        "    and 7 more",
        "  the answer has no rows",
        "  window w holds 9 elements",
        "    7 before, and",
        '    8 <a:s> <a:p> "7"',
        '    9 <a:s> <a:p> "8"',
    ]


def test_where_only_one_of_two_engines_differs_the_majority_counts() -> None:
    """pyoxigraph answers ``"text" != 2``, which is an error in SPARQL 1.1; the answers here are the right ones."""
    found, inputs = parse(query("FILTER(?x != 2)")), numbers('"text"', typed("3", "integer"))
    right = one(typed("3", "integer"), 2)
    verdict = judge(found, inputs, Options(), right)
    assert verdict.evaluator == "pyoxigraph"
    assert verdict.equal and [d.time for d in verdict.outvoted] == [1]
    assert "1 more instants pyoxigraph differs" in verdict.text()
    assert not judge(found, inputs, Options(), right + one('"text"', 2)).equal


def test_a_second_engine_counts_where_it_has_other_forms_of_numbers() -> None:
    """rdflib loses variables of a filter in EXISTS within GRAPH; pyoxigraph stores xsd:int as xsd:integer."""
    text = (
        "SELECT DISTINCT * FROM NAMED <urn:S> [RANGE 5ms] AS ?w WHERE { GRAPH ?w { ?p <urn:e> ?q } ?l <urn:cap> ?n "
        "FILTER EXISTS { GRAPH ?w { ?q <urn:e> ?p FILTER(?p != <urn:z>) } } }"
    )
    number = typed("1", "int")
    elements = [Element(1, (("<urn:a>", "<urn:e>", "<urn:b>"),)), Element(1, (("<urn:b>", "<urn:e>", "<urn:a>"),))]
    inputs = Inputs({"urn:S": elements}, [("<urn:l>", "<urn:cap>", number)], {})
    right: Answers = Counter()
    for p, q in (("<urn:a>", "<urn:b>"), ("<urn:b>", "<urn:a>")):
        right[1, "+", frozenset({"p": p, "q": q, "l": "<urn:l>", "n": number}.items())] = 1
    verdict = judge(parse(text), inputs, Options(), right)
    assert (verdict.evaluator, verdict.equal) == ("rdflib", True)
    wrong = Counter(dict.fromkeys(right, 2))
    assert not judge(parse(text), inputs, Options(), wrong).equal


def test_one_engine_judges_what_the_other_cannot_evaluate() -> None:
    """rdflib compares no IRI with a number; pyoxigraph does not tell the two numbers apart."""
    found = parse("SELECT ?x FROM NAMED <urn:S> [RANGE 9ms] AS ?w WHERE { GRAPH ?w { ?s ?p ?x } } ORDER BY DESC(?x) LIMIT 1")
    terms = (typed("1.0E0", "double"), typed("1", "double"), "<urn:x>")
    inputs = Inputs({"urn:S": [Element(t, (("<a:s>", "<a:p>", x),)) for t, x in enumerate(terms)]}, [], {})
    verdict = judge(found, inputs, Options(), evaluate(found, inputs, Options(evaluator="pyoxigraph")))
    assert (verdict.evaluator, verdict.equal) == ("pyoxigraph", True)
    with pytest.raises(RunError, match=r"^rdflib cannot evaluate the rewritten query: \w+$"):
        judge(found, inputs, Options(), one(terms[2], 0))


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("?x > 2", "3 2.5 2.5e0"),
        ("?x = 2.5", "2.5 2.5e0"),
        ("?x != 3", "2.5 2.5e0"),
        ('?x != "b"', "a"),
        ('?x < "b"', "a"),
        ("?x IN (3, 7)", "3"),
        ('?x NOT IN ("b", "c")', "a"),
        ("?x = true", "true"),
        ('?x >= "2020-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>', "2020-01-01T00:00:00Z"),
        ("?x = <a:b> || ?x != <a:b>", "2.5 2.5e0 2020-01-01T00:00:00Z 3 a true"),
    ],
)
def test_literals_of_different_kinds_are_not_compared_by_the_second_engine(condition: str, kept: str) -> None:
    values = [typed("3", "integer"), typed("2.5", "decimal"), typed("2.5e0", "double"), '"a"', typed("true", "boolean")]
    inputs = numbers(*values, typed("2020-01-01T00:00:00Z", "dateTime"))
    found = evaluate(parse(query(f"FILTER({condition})")), inputs, Options(evaluator="rdflib"))
    shown = " ".join(sorted(next(iter(row))[1].split('"')[1] for _, _, row in found))
    assert shown == " ".join(sorted(kept.split()))


@pytest.mark.parametrize("evaluator", ["pyoxigraph", "rdflib"])
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('REGEX(?x, "^(a+)+$")', "false"),  # of 40 letters and another one: Python's engine does not terminate
        ('REGEX(?x, "B$", "i")', "true"),
        ('REPLACE(?x, "(a+)+c", "")', "a" * 40 + "b"),
        ('REPLACE(?x, "(a{40})(b)", "$2-$1")', "b-" + "a" * 40),
        ('REPLACE(?x, "a{40}", "$", "q")', "a" * 40 + "b"),
    ],
)
def test_regular_expressions_take_linear_time(evaluator: Evaluator, expression: str, value: str) -> None:
    inputs = numbers(f'"{"a" * 40}b"')
    found = evaluate(
        parse(query(f"BIND({expression} AS ?y)").replace("SELECT ?x", "SELECT ?y")), inputs, Options(evaluator=evaluator)
    )
    assert [next(iter(row))[1].split('"')[1] for _, _, row in found] == [value]


def test_references_to_groups_are_left_to_rdflib() -> None:
    found = evaluate(parse(query('FILTER(REGEX(?x, "^(.)\\\\1$"))')), numbers('"aa"', '"ab"'), Options(evaluator="rdflib"))
    assert [next(iter(row))[1] for _, _, row in found] == ['"aa"']


def test_lexical_forms_of_the_input_are_kept() -> None:
    for body in ("", "FILTER(STRLEN(STR(?x)) > 2)"):
        found = evaluate(parse(query(body)), numbers(typed("1.50", "decimal"), typed("007", "integer")), Options())
        assert found == one(typed("1.50", "decimal"), 1) + one(typed("007", "integer"), 2)


def test_terms_that_one_engine_cannot_tell_apart_are_told_apart() -> None:
    text = query("").replace("?x FROM", "(COUNT(*) AS ?x) FROM").replace("<a:p> ?x", "<a:p> ?v . ?t <a:p> ?v")
    found = evaluate(parse(text), numbers(typed("1.5", "decimal"), typed("1.50", "decimal")), Options())
    assert found == one(typed("1", "integer"), 1) + one(typed("2", "integer"), 2)


def test_numbers_of_the_query_are_read_as_written() -> None:
    """rdflib, which evaluates because pyoxigraph confuses the terms, would read both values as 1."""
    found, inputs = parse(query("VALUES ?x {1 01}")), numbers(typed("01", "integer"), typed("1", "integer"))
    verdict = judge(found, inputs, Options(), one(typed("01", "integer"), 1) + one(typed("1", "integer"), 2))
    assert (verdict.evaluator, verdict.differences, verdict.outvoted) == ("rdflib", (), ())


def test_confused_terms_in_triple_terms_are_not_judged() -> None:
    found = parse(query("FILTER(isTRIPLE(<<( <a:s> <a:p> ?x )>>))"))
    inputs = numbers(typed("01", "integer"), typed("1", "integer"))
    with pytest.raises(RunError, match=r'pyoxigraph reads "01"\^\^<[^>]*> and "1"\^\^<[^>]*> as one term'):
        judge(found, inputs, Options(), one(typed("1", "integer"), 2))
    apart = numbers(typed("2", "integer"), typed("1", "integer"))
    assert not judge(found, apart, Options(), one(typed("1", "integer"), 2)).equal  # the row at 1 is missing


def test_graphs_of_blank_nodes_that_look_alike() -> None:
    """A CONSTRUCT makes blank nodes for each solution: hundreds of equal and unequal parts are distinguished quickly."""

    def graph(prefix: str, pairs: int, loops: int) -> list[tuple[str, str, str]]:
        both = [(f"_:{prefix}a{i}", "<p>", f"_:{prefix}b{i}") for i in range(pairs)]
        return [*both, *((f"_:{prefix}c{i}", "<p>", f"_:{prefix}c{i}") for i in range(loops)), ("<s>", "<p>", '"1"')]

    assert isomorphic(graph("x", 300, 5), list(reversed(graph("y", 300, 5))))
    assert not isomorphic(graph("x", 300, 5), graph("y", 299, 6))
    assert not isomorphic(graph("x", 2, 0), [*graph("y", 2, 0)[:2], ("<s>", "<p>", '"01"')])
    chain = [("_:a", "<p>", "_:b"), ("_:b", "<p>", "_:c")]
    assert not isomorphic(chain, [("_:a", "<p>", "_:b"), ("_:c", "<p>", "_:b")])
    assert isomorphic(chain, [("_:c", "<p>", "_:a"), ("_:b", "<p>", "_:c")])
