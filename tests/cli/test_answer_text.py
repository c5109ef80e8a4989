"""Answers as a table, CSV and N-Triples, and a limit."""

from __future__ import annotations

import csv
import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cqels_opt.cli.answer_text import AnswerText, check_format
from cqels_opt.cli.options import RunOptions
from cqels_opt.errors import InputError
from cqels_opt.operators.stream_output import json_term
from cqels_opt.query.parser import parse

ROWS: list[dict[str, Any]] = [
    {"time": 1, "op": "+", "bindings": {"x": {"type": "literal", "value": "a, b"}}},
    {"time": 22, "op": "-", "bindings": {"x": {"type": "uri", "value": "u"}, "y": {"type": "literal", "value": "long"}}},
]
SELECT, CONSTRUCT = parse("SELECT ?x { ?x ?p ?y }"), parse("CONSTRUCT { ?x ?p ?y } WHERE { ?x ?p ?y }")


def printed(rows: list[dict[str, Any]], **options: Any) -> str:
    to = io.StringIO()
    text = AnswerText(RunOptions(Path("q"), **options), ["x", "y"], to)
    for row in rows:
        text.write(json.dumps(row) + "\n")
    return to.getvalue()


def test_formats() -> None:
    assert printed(ROWS, format="csv") == 'time,op,x,y\n1,+,"a, b",\n22,-,u,long\n'
    times = "1970-01-01 00:00:00.001", "1970-01-01 00:00:00.022"
    table = [f"{'time':23}  op  x     y", f"{times[0]}  +   a, b", f"{times[1]}  -   u     long"]
    assert printed(ROWS, format="table").splitlines() == table
    assert printed([{"time": 1, "op": "+", "triples": [["<a>", "<b>", '"c"']]}], format="nt") == '<a> <b> "c" .\n'


def test_a_triple_term_is_written_as_a_term() -> None:
    literals = [{"type": "literal", "value": "a"}, {"type": "literal", "value": "1", "datatype": "urn:d"}]
    literals += [
        {"type": "literal", "value": 'x"', "xml:lang": "en"},
        {"type": "literal", "value": "y", "xml:lang": "ar", "its:dir": "rtl"},
    ]
    subject, verb = {"type": "bnode", "value": "b"}, {"type": "uri", "value": "urn:p"}
    terms: Any = {"type": "uri", "value": "urn:o"}
    for each in literals:
        terms = {"type": "triple", "value": {"subject": subject, "predicate": verb, "object": terms}}
        answer = {"time": 1, "op": "+", "bindings": {"x": each, "y": terms}}
        (_, _, x, y), *_ = csv.reader(printed([answer], format="csv").splitlines()[1:])
        assert (x, json_term(y)) == (each["value"], terms)
        terms = {"type": "triple", "value": {"subject": subject, "predicate": verb, "object": each}}
        (_, _, _, y), *_ = csv.reader(printed([{**answer, "bindings": {"y": terms}}], format="csv").splitlines()[1:])
        assert json_term(y) == terms


def test_a_blank_node_has_the_label_of_its_term() -> None:
    """Without ``_:`` it would be the text of a literal."""
    answer = {"time": 1, "op": "+", "bindings": {"x": {"type": "bnode", "value": "s0-b"}}}
    assert printed([answer], format="csv") == "time,op,x,y\n1,+,_:s0-b,\n"


def test_an_answer_may_have_any_character() -> None:
    """``str.splitlines`` ends lines at U+0085 and U+2028 as well."""
    text = "a\u2028b\u0085c"
    answer = {"time": 1, "op": "+", "bindings": {"x": {"type": "literal", "value": text}}}
    to = io.StringIO()
    AnswerText(RunOptions(Path("q"), format="csv", limit=1000), ["x"], to).write(json.dumps(answer, ensure_ascii=False) + "\n")
    assert to.getvalue() == f"time,op,x\n1,+,{text}\n"


def test_a_limit_interrupts_the_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    assert printed(ROWS * 2, limit=3).splitlines() == [json.dumps(row) for row in (ROWS * 2)[:3]]
    assert raised == [signal.SIGINT]


def test_what_a_limit_lets_through_is_counted() -> None:
    text = AnswerText(RunOptions(Path("q"), limit=3), ["x"], io.StringIO())
    for row in ROWS:
        text.write(json.dumps(row) + "\n")
    assert text.printed == 2


@pytest.mark.parametrize(
    ("options", "query", "message"),
    [
        ({"format": "nt"}, SELECT, "--format nt: it has the triples of CONSTRUCT"),
        ({"format": "csv"}, CONSTRUCT, "--format csv: it has one column per variable of one SELECT"),
        ({"format": "csv", "out": Path("o")}, SELECT, "--format csv: it is for answers on standard output"),
        ({"limit": 1, "out": Path("o")}, SELECT, "--limit: it is for answers on standard output"),
    ],
)
def test_wrong_combinations(options: dict[str, Any], query: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_format(RunOptions(Path("q"), **options), [query])
