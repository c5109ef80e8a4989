"""The queries of a command: their texts, and warnings about them before they run."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.query_requests import query_requests, warn_of_absent_graphs, warn_of_mistakes
from cqels_opt.errors import InputError, QueryError
from cqels_opt.lod.build import build_store
from cqels_opt.query.algebra import Bgp, Query
from cqels_opt.query.printing.writing import found_in

EX = "http://ex.org/"


def read(folder: Path, text: str, base: str | None = None) -> Query:
    (folder / "q.rq").write_text(text, encoding="utf-8")
    (asked,) = query_requests(RunOptions(folder / "q.rq", base=base))
    return asked.query


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = f"SELECT ?p {{ ?p <{EX}at> ?l }}"
    assert read(tmp_path, "\ufeff" + text) == read(tmp_path, text)


def test_relative_iris_of_a_query_are_resolved_against_an_option(tmp_path: Path) -> None:
    text = "SELECT ?p { GRAPH <events> { ?p <../at> ?l } }"
    with pytest.raises(QueryError, match=r"q\.rq:1:19: <events> is a relative IRI, and the query has no BASE"):
        read(tmp_path, text)
    assert read(tmp_path, text, f"{EX}a/").body == read(tmp_path, f"BASE <{EX}a/> {text}").body
    own = read(tmp_path, f"BASE <http://own/> {text}", EX)
    assert own.body == read(tmp_path, f"BASE <http://own/> {text}").body


def test_an_error_has_its_place_in_the_text_without_the_base(tmp_path: Path) -> None:
    for text, place in ("SELECT ?p WHRE { ?p a ?q }", "1:11"), ("SELECT ?p\nWHRE { ?p a ?q }", "2:1"):
        found = []
        for base in (None, EX):
            with pytest.raises(QueryError) as error:
                read(tmp_path, text, base)
            found.append(error.value.report())
        assert found[0] == found[1] and f"q.rq:{place}: " in found[0]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [(131_072, "field larger than field limit"), (1 << 30, "unexpected end of data")],
    ids=["usual", "raised"],
)
def test_instances_whose_quote_has_no_end(limit: int, reason: str, tmp_path: Path) -> None:
    """The limit of a field is that of the process: what reads streams of CSV raises it."""
    before = csv.field_size_limit(limit)
    (tmp_path / "q.rq").write_text("SELECT ?p { ?p <urn:at> $PLACE$ }", encoding="utf-8")
    (tmp_path / "places.csv").write_text('PLACE\n"<urn:a>\n' + "<urn:b>\n" * 20_000, encoding="utf-8")
    try:
        with pytest.raises(InputError, match=rf"places\.csv:\d+: {reason}.*; a quote may lack its end"):
            query_requests(RunOptions(tmp_path / "q.rq", instances=tmp_path / "places.csv"))
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("{ GRAPH :there { ?p :at ?l } }", []),
        ("{ GRAPH ?g { ?p :at ?l } }", []),
        ("{ GRAPH :none { ?p :at ?l } GRAPH :none { ?l :in ?p } }", ["none"]),
        ("{ ?p :at ?l FILTER NOT EXISTS { GRAPH :none { ?p :at+ ?l } } }", ["none"]),
        ("FROM :there FROM :none { ?p :at ?l }", ["none"]),
        ("FROM NAMED :none FROM NAMED :there { GRAPH ?g { ?p :at ?l } }", ["none"]),
        ("FROM STREAM :S [RANGE 1s STEP 1s] FROM :one FROM :other { ?p :at ?l }", ["one", "other"]),
        ("FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }", []),
    ],
)
def test_a_named_graph_that_is_not_there_is_mentioned(
    text: str, absent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.rq").write_text(f"PREFIX : <{EX}> SELECT * {text}", encoding="utf-8")
    build_store(tmp_path / "store", [(f"<{EX}a>", f"<{EX}at>", f"<{EX}x>", f"<{EX}there>")])
    warn_of_absent_graphs(query_requests(RunOptions(tmp_path / "q.rq")), tmp_path / "store")
    assert capsys.readouterr().err.splitlines() == [
        f"warning: the static data have no graph <{EX}{name}>, in which the query looks for triples: "
        f"load it with --graph {EX}{name} PATH; there is <{EX}there>"
        for name in absent
    ]


def test_where_no_graph_is_there_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.rq").write_text(f"SELECT * {{ GRAPH <{EX}g> {{ ?s ?p ?o }} }}", encoding="utf-8")
    build_store(tmp_path / "store", [])
    warn_of_absent_graphs(query_requests(RunOptions(tmp_path / "q.rq")), tmp_path / "store")
    assert capsys.readouterr().err.endswith(f": load it with --graph {EX}g PATH; there is no named graph\n")
    warn_of_absent_graphs(query_requests(RunOptions(tmp_path / "q.rq")), tmp_path / "store", loaded=True)
    assert f": load it with cqels-opt load … --graph {EX}g PATH; there" in capsys.readouterr().err


@pytest.mark.long
def test_only_verify_imports_the_independent_evaluation() -> None:
    code = "import sys, cqels_opt.cli.commands; print([m for m in ('cqels_opt.verify', 'rdflib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def instances(folder: Path, rows: str, text: str = f"SELECT ?l {{ <{EX}$who$> <{EX}at> ?l }}") -> RunOptions:
    """A query with ``$who$``, and a file of its values."""
    (folder / "q.rq").write_text(text, encoding="utf-8")
    (folder / "i.csv").write_text(f"id,who\n{rows}", encoding="utf-8")
    return RunOptions(folder / "q.rq", instances=folder / "i.csv")


def test_an_id_of_an_instance_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"i\.csv:4: the id q-ann is also that of line 2"):
        query_requests(instances(tmp_path, "q-ann,ann\nq-bob,bob\nq-ann,carl\n"))
    named = query_requests(instances(tmp_path, '"q,é ann",ann\nq_ann,bob\n\n,carl\n,dan\n'))
    assert [asked.id for asked in named] == ["q,é ann", "q_ann", "q_3", "q_4"]
    assert [asked.id for asked in query_requests(instances(tmp_path, "alone,ann\n\n"))] == ["alone"]
    for end in ("\r\n", "\r"):
        options = instances(tmp_path, "q-ann,ann\n")
        (tmp_path / "i.csv").write_bytes(end.join(("id,who", "q-ann,ann", "q-bob,bob", "")).encode())
        assert [asked.id for asked in query_requests(options)] == ["q-ann", "q-bob"]
    with pytest.raises(InputError, match=r"i\.csv:3: '\.\./x' is not a valid name of a query"):
        query_requests(instances(tmp_path, "\n../x,ann\n"))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """Else the values of one of them were lost."""
    options = instances(tmp_path, "")
    (tmp_path / "i.csv").write_text("\nwho,what, who\nann,b,bob\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"i\.csv:2: two columns have the name who$"):
        query_requests(options)


def test_a_value_is_not_searched_for_columns(tmp_path: Path) -> None:
    (tmp_path / "q.rq").write_text(f'SELECT ?l {{ <{EX}$who$> <{EX}at> ?l FILTER(?l != "$what$") }}', encoding="utf-8")
    (tmp_path / "i.csv").write_text("what,who\n$who$,ann\n", encoding="utf-8")
    (asked,) = query_requests(RunOptions(tmp_path / "q.rq", instances=tmp_path / "i.csv"))
    assert f"<{EX}ann>" in asked.text and '"$who$"' in asked.text


@pytest.mark.parametrize(
    ("place", "value", "term"),
    [
        ("'$who$'", 'it\'s "x"\n', '"it\'s \\"x\\"\\n"'),
        ('"$who$"', 'it\'s "x"\n', '"it\'s \\"x\\"\\n"'),
        ("'''$who$'''@fr", "l'été'", "\"l'été'\"@fr"),
        ("$who$", "\"a 'b'\"@en", "\"a 'b'\"@en"),
        ('"$who$"', "a\r\nb\rc\n", '"a\\r\\nb\\rc\\n"'),
        ("$who$", '"1"^^<urn:cm>', '"1"^^<urn:cm>'),
        (":it\\'s , '$who$'", "l'été", '"l\'été"'),
        ("<urn:it's#1> , $who$", '"a"', '"a"'),
        ("# it's\n$who$", '"a"', '"a"'),
    ],
)
def test_values_are_escaped_within_strings_only(place: str, value: str, term: str, tmp_path: Path) -> None:
    (tmp_path / "q.rq").write_text(f"PREFIX : <{EX}> SELECT ?l {{ ?l :at {place} # $who$\n}}", encoding="utf-8")
    with (tmp_path / "i.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["who"], [value]])
    (asked,) = query_requests(RunOptions(tmp_path / "q.rq", instances=tmp_path / "i.csv"))
    assert [pattern.o for bgp in found_in(asked.query.body, Bgp) for pattern in bgp.patterns][-1] == term


def test_a_value_of_an_instance_that_makes_the_query_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueryError) as raised:
        query_requests(instances(tmp_path, "q-ann,ann\nq-bob,b ob\n"))
    message, line, caret = raised.value.report().splitlines()
    place = f"{tmp_path}/i.csv:3: with the values of this line, {tmp_path}/q.rq:1:"
    assert message.startswith(place) and message.endswith("an IRI cannot contain ' '")
    assert line == f"SELECT ?l {{ <{EX}b ob> <{EX}at> ?l }}" and caret.strip() == "^"


@pytest.mark.parametrize(("names", "prefixes"), [(["a"], [""]), (["a", "b"], ["a.rq: ", "b.rq: "])])
def test_warnings_of_several_files_name_the_file(
    names: list[str], prefixes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in names:
        Path(f"{name}.rq").write_text(f"SELECT ?s ?z {{ ?s <{EX}at> ?o }}", encoding="utf-8")
    first, *more = (Path(f"{name}.rq") for name in names)
    warn_of_mistakes(query_requests(RunOptions(first, more=tuple(more))))
    found = capsys.readouterr().err.splitlines()
    assert [line.partition("?z is in SELECT")[0] for line in found] == [f"warning: {prefix}" for prefix in prefixes]


def test_warnings_of_instances_appear_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = instances(tmp_path, "q-ann,ann\nq-bob,bob\n", f"SELECT ?z {{ <{EX}$who$> <{EX}at> ?l }}")
    warn_of_mistakes(query_requests(options))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ?z is in SELECT")
