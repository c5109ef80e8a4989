"""The parser's tables in the user's cache folder: whatever the folder has, queries are read as without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cqels_opt.query import grammar
from cqels_opt.query.dialects import BUILT_IN
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.parser import parse

QUERY = 'PREFIX : <http://ex.org/> SELECT ?a WHERE { STREAM :s [RANGE 5s] { ?a :naïve ?b } ?a :p "x" }'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    grammar.load.cache_clear()
    yield tmp_path / "cqels-opt"
    grammar.load.cache_clear()


def again() -> object:
    grammar.load.cache_clear()
    return parse(QUERY, "cqels")


def test_tables_are_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = parse(QUERY, "cqels")
    (file,) = folder.iterdir()
    monkeypatch.setattr("lark.lark.load_grammar", None)  # nothing is made from the grammar's text
    assert again() == made
    assert [*folder.iterdir()] == [file]


@pytest.mark.parametrize(
    "damage", [lambda content: b"", lambda content: content[: len(content) // 2], lambda content: b"x" + content]
)
def test_damaged_tables_are_made_again(
    folder: Path, damage: Callable[[bytes], bytes], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = parse(QUERY, "cqels")
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert again() == made
    monkeypatch.setattr("lark.lark.load_grammar", None)
    assert again() == made
    assert capfd.readouterr() == ("", "")


def test_no_folder_is_no_matter(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = parse(QUERY, "cqels")
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("a file")
    assert again() == expected
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_dialects_have_tables_of_their_own(folder: Path, dialect: str) -> None:
    assert grammar._tables(find(dialect).grammar) != grammar._tables(find(dialect).grammar + "\n")


# The character classes of SPARQL 1.1 (PN_CHARS_BASE, and PN_CHARS without the hyphen), as its specification writes them.
BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff"
    "\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
WORD = f"{BASE}_0-9\u00b7\u0300-\u036f\u203f-\u2040"


@pytest.mark.parametrize(("name", "specified"), [("PN_BASE", BASE), ("PN_WORD", WORD)])
def test_negated_classes_are_those_of_the_specification(name: str, specified: str) -> None:
    text = (Path(grammar.__file__).parent / "sparql.lark").read_text(encoding="utf-8")
    (written,) = re.findall(rf"^{name}: /(.*)/$", text, re.MULTILINE)
    every = "".join(map(chr, range(0x110000)))
    assert re.sub(written.replace(r"\/", "/"), "", every) == re.sub(f"[{specified}]", "", every)


@pytest.mark.parametrize(("name", "specified"), [("PN_BASE", BASE), ("PN_WORD", WORD)])
def test_classes_for_texts_in_ascii_are_those_of_the_specification(name: str, specified: str) -> None:
    every = "".join(map(chr, range(0x80)))
    assert re.sub(grammar._ASCII[name], "", every) == re.sub(f"[{specified}]", "", every)


def test_a_text_in_ascii_is_read_without_the_other_letters(folder: Path) -> None:
    """Both parsers read it alike; the other one is not needed for it, nor this one for another text."""
    plain = QUERY.replace("ï", "i")
    read = parse(plain, "cqels")
    assert grammar.load.cache_info().currsize == 1
    assert replace(parse(f"{plain} # naïve", "cqels"), text=plain) == read
    assert grammar.load.cache_info().currsize == 2
