"""Columns to triples: mappings against a second, short implementation of term maps; errors with their positions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import InputError
from cqels_opt.rdf.mapping import Number, mapping_of, read_mapping
from cqels_opt.rdf.terms import canonical

SENSORS = """
time = "at"

[prefixes]
ex = "http://ex.org/"

[[triples]]
subject = "ex:sensor/{id}"
class = "ex:Sensor"
[triples.properties]
"ex:celsius" = { column = "value.c", datatype = "xsd:decimal" }
"ex:room" = "ex:room/{room}"
"ex:label" = { column = "label", language = "EN" }
"ex:unit" = [{ iri = "ex:Celsius" }, { value = "C" }]
"ex:page" = { column = "page", type = "iri" }

[[triples]]
subject = { template = "{id}", type = "blank" }
graph = "ex:graph/{id}"
[triples.properties]
"ex:says" = { template = "{id} in {room}", type = "literal" }
"ex:raw" = { column = "value.c" }
"""
EX = "http://ex.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"


def triples(record: dict[str, Any]) -> set[tuple[str, str, str, str | None]]:
    return set(mapping_of(SENSORS).triples(record))


def test_a_record_gives_what_the_mapping_says() -> None:
    record = {"id": "a b/é", "room": 3, "value": {"c": Number("21.50")}, "label": 'the "one"', "page": "http://e/x"}
    s = f"<{EX}sensor/a%20b%2Fé>"
    assert triples(record) == {
        (s, "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<{EX}Sensor>", None),
        (s, f"<{EX}celsius>", f'"21.50"^^<{XSD}decimal>', None),
        (s, f"<{EX}room>", f"<{EX}room/3>", None),
        (s, f"<{EX}label>", r'"the \"one\""@en', None),
        (s, f"<{EX}unit>", f"<{EX}Celsius>", None),
        (s, f"<{EX}unit>", '"C"', None),
        (s, f"<{EX}page>", "<http://e/x>", None),
        ("_:a_20_b_2f__e9_", f"<{EX}says>", '"a b/é in 3"', f"<{EX}graph/a%20b%2Fé>"),
        ("_:a_20_b_2f__e9_", f"<{EX}raw>", f'"21.50"^^<{XSD}double>', f"<{EX}graph/a%20b%2Fé>"),
    }


def test_what_a_record_lacks_gives_no_triple() -> None:
    assert {p for _, p, _, _ in triples({"id": 1, "room": None, "value": {}})} == {
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
        f"<{EX}unit>",
    }
    with pytest.raises(ValueError, match=r"^gives no triple: it lacks id, "):
        triples({"room": 3})


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"id": [1]}, "column id is a list, not a value"),
        ({"id": 1, "room": {"x": 1}}, "column room is an object, not a value"),
        ({"id": 1, "page": "x"}, "column page is 'x', no absolute IRI"),
        ({"id": 1, "page": "http://e/<x>"}, "column page: not an IRI"),
        ({"id": "\ud800"}, "half of a surrogate pair is no character"),
        ({"id": 1, "label": "\ud800"}, "column label: a surrogate is not a character"),
    ],
)
def test_a_value_that_gives_no_term(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        triples(record)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6))


@given(st.dictionaries(st.sampled_from("abc"), VALUES))
def test_any_record_gives_the_terms_of_the_definition(record: dict[str, Any]) -> None:
    """Literals have their natural datatype (R2RML §10.2), values in IRIs are percent-encoded (§7.3), NULL gives nothing (§11.1)."""
    mapping = mapping_of(
        f'[[triples]]\nsubject = "{EX}{{a}}"\n[triples.properties]\n"{EX}p" = {{ column = "b" }}\n"{EX}q" = "{EX}{{c}}/{{b}}"'
    )

    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def escaped(value: Any) -> str:
        return "".join(c if (c.isalnum() and c.isascii()) or c in "-._~" or _kept(c) else quote(c, safe="") for c in text(value))

    def natural(value: Any) -> str:
        plain = '"' + text(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'
        kind = "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else None
        return canonical(f"{plain}^^<{XSD}{kind}>" if kind else plain)

    a, b, c = (record.get(name) for name in "abc")
    expected = []
    if a is not None and b is not None:
        expected.append((f"<{EX}{escaped(a)}>", f"<{EX}p>", natural(b), None))
        if c is not None:
            expected.append((f"<{EX}{escaped(a)}>", f"<{EX}q>", f"<{EX}{escaped(c)}/{escaped(b)}>", None))
    if expected:
        assert mapping.triples(record) == expected
    else:
        with pytest.raises(ValueError, match=r"^gives no triple"):
            mapping.triples(record)


def _kept(character: str) -> bool:
    """The ``ucschar`` of RFC 3987."""
    code = ord(character)
    blocks = [(0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF)]
    blocks += [((n << 16) + (0x1000 if n == 14 else 0), (n << 16) + 0xFFFD) for n in range(1, 15)]
    return any(low <= code <= high for low, high in blocks)


@pytest.mark.parametrize(
    ("unit", "value", "time"),
    [
        ("ms", 1500, "1500"),
        ("s", 2, "2000"),
        ("s", Number("1700000000.1239"), "1700000000123"),
        ("s", Number("-0.0001"), "-1"),
        ("us", 1999, "1"),
        ("ns", Number("1.5e9"), "1500"),
        ("s", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("ms", None, None),
    ],
)
def test_times_by_their_unit(unit: str, value: Any, time: str | None) -> None:
    mapping = mapping_of(f'time = "at"\ntime_unit = "{unit}"\n[[triples]]\nsubject = "{EX}{{a}}"\nclass = "{EX}C"')
    assert mapping.time_of({"at": value}) == time


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = ", r"m.toml: is not TOML: "),
        ("", r"m.toml: it has no \[\[triples\]\]"),
        ('tripels = "x"', r"m.toml: 'tripels' is not known here; known are format, "),
        ('format = "xml"\n[[triples]]', r"m.toml: format: 'xml' is not known; known are json and csv"),
        ('time_unit = "h"\n[[triples]]', r"m.toml: time_unit: 'h' is not known; known are s, ms, us, ns"),
        ('format = "csv"\n[[triples]]', r"m.toml: columns: messages of CSV have them"),
        ('[[triples]]\nclass = "a:b"', r"m.toml: triples 1: it has no subject"),
        ('[[triples]]\nsubject = "a:{x}"\nclass = 5', r"m.toml: triples 1: class is an IRI, or a list of IRIs"),
        ('[[triples]]\nsubject = "a:{x}"', r"m.toml: triples 1: it has neither properties nor a class"),
        ('[[triples]]\nsubject = "{x}"\nclass = "a:b"', r"triples 1 subject: the template '{x}' begins with no scheme"),
        ('[[triples]]\nsubject = "a:{x"\nclass = "a:b"', r"triples 1 subject: the template 'a:{x' is wrong at '{'"),
        ('[[triples]]\nsubject = "a:{x}"\nclass = "b"', r"triples 1 class: 'b' is no IRI: write it out, or declare its prefix"),
        ('[[triples]]\nsubject = "a:{x}"\n[triples.properties]\n"a:p" = 3', r"property a:p: 3 is no term"),
        ('[[triples]]\nsubject = "a:{x}"\n[triples.properties]\n"a:p" = {}', r"property a:p: a term has one of column, "),
        (
            '[[triples]]\nsubject = "a:{x}"\n[triples.properties]\n"a:p" = { column = "x", type = "iri", datatype = "xsd:int" }',
            r"property a:p: a datatype or a language \(one of them\) is for a literal",
        ),
        (
            '[[triples]]\nsubject = { column = "x", type = "literal" }\nclass = "a:b"',
            r"subject: type 'literal' cannot stand here",
        ),
        (
            'format = "csv"\ncolumns = ["y"]\n[[triples]]\nsubject = "a:{x}"\nclass = "a:b"',
            r"m.toml: columns: x is read, and not among them",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        mapping_of(text, "m.toml")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no.toml: No such file or directory$"):
        read_mapping(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"bytes.toml: not UTF-8 text \(byte 0\)$"):
        read_mapping(tmp_path / "bytes.toml")
