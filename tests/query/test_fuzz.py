"""The parser on arbitrary input: the result is an algebra or a QueryError, and the work grows at most linearly.

``CQELS_OPT_FUZZ`` is the number of mutated texts per dialect.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.dialects import names
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text

from .test_printing import BODIES, WINDOWS, P

EXAMPLES = int(os.environ.get("CQELS_OPT_FUZZ", "150"))
FILES = [
    path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parents[2] / "bench" / "report_queries").glob("*.rq"))
]
PIECES = [
    *(
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ".",
        ";",
        ",",
        "*",
        "+",
        "-",
        "/",
        "|",
        "||",
        "&&",
        "!",
        "^",
        "^^",
        "?",
        "$",
        "@",
        "@en",
        "_:",
        "<",
        ">",
        ":",
    ),
    *(
        "SELECT",
        "CONSTRUCT",
        "ASK",
        "DESCRIBE",
        "WHERE",
        "FROM",
        "NAMED",
        "STREAM",
        "WINDOW",
        "GRAPH",
        "REGISTER",
        "AS",
        "RANGE",
        "STEP",
        "NOW",
    ),
    *(
        "OPTIONAL",
        "UNION",
        "MINUS",
        "FILTER",
        "EXISTS",
        "NOT",
        "BIND",
        "VALUES",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "OFFSET",
        "SERVICE",
    ),
    *(
        "COUNT(",
        "IF(",
        "COALESCE(",
        "REGEX(",
        "'",
        '"',
        '"""',
        "\\",
        "\\u12",
        "#",
        "\n",
        "\t",
        "\x00",
        "\ufeff",
        "\ud800",
        "é",
        "𝒳",
        "\u2028",
    ),
    *(
        "99999999999999999999",
        "1e999",
        "0",
        "-1",
        "PT5S",
        "5s",
        "P1Y",
        "<http://a b>",
        "<http://x>",
        ":x",
        "?x",
        "a",
        "true",
        "UNDEF",
        "<<",
        "{|",
    ),
]


def texts() -> dict[str, list[str]]:
    """Valid queries as seeds, by dialect."""
    found: dict[str, list[str]] = {"cqels": list(FILES)}
    for dialect, (clauses, pattern) in WINDOWS.items():
        for body in BODIES[:-1]:
            text = body.replace("%s", pattern)
            head, brace, rest = text.partition(" { " if not text.startswith("CONSTRUCT") else " } ")
            found.setdefault(dialect, []).append(f"{P}{head}{brace if brace == ' } ' else ' '}{clauses}{brace}{rest}")
    return found


def mutated(rng: random.Random, text: str, others: list[str]) -> str:
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at, size = rng.randrange(len(text) + 1), rng.choice([1, 1, 2, 5, 20, 80])
        match rng.randrange(8):
            case 0:
                text = text[:at] + text[at + size :]
            case 1:
                text = f"{text[:at]} {rng.choice(PIECES)} {text[at:]}"
            case 2:
                text = text[:at] + rng.choice(PIECES) + text[at + size :]
            case 3:
                text = text[:at] + text[at : at + size] * 2 + text[at + size :]
            case 4:
                text = text[: at + 1]
            case 5:
                other = rng.choice(others)
                text = text[:at] + other[rng.randrange(len(other)) :]
            case 6:
                words = text.split(" ")
                i, j = rng.randrange(len(words)), rng.randrange(len(words))
                words[i], words[j] = words[j], words[i]
                text = " ".join(words)
            case _:
                text = (
                    text[:at] + chr(rng.choice([rng.randrange(128), rng.randrange(0x3000), rng.randrange(0x110000)])) + text[at:]
                )
    return text


def survives(text: str, dialect: str) -> str | None:
    """The error message for a text; None for a query. Any other exception fails, as does a position outside the text."""
    try:
        query = parse(text, dialect)
    except QueryError as error:
        assert error.message and "\n" not in error.message and len(error.message) < 400, error.message
        assert 1 <= error.line <= text.count("\n") + 1 and error.column >= 1
        assert error.report()
        return error.message
    try:
        printed = to_text(query, query.dialect)
    except QueryError as error:
        assert "cannot express" in error.message
    else:
        parse(printed, query.dialect)
    return None


@pytest.mark.parametrize("dialect", names())
def test_mutated_queries(dialect: str) -> None:
    rng, good = random.Random(f"fuzz {dialect}"), texts()[dialect]
    said = [survives(mutated(rng, rng.choice(good), good), rng.choice([dialect, dialect, "auto"])) for _ in range(EXAMPLES)]
    assert said.count(None) < 0.7 * EXAMPLES  # most of them are invalid
    assert len(set(said)) > EXAMPLES / 10


@pytest.mark.long
def test_truncated_queries() -> None:
    for dialect, good in texts().items():
        for text in good[:4]:
            for end in range(0, len(text), 9):
                survives(text[:end], dialect)


def test_random_bytes() -> None:
    rng = random.Random(1)
    for _ in range(EXAMPLES):
        some = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        survives(some.decode(rng.choice(["latin-1", "utf-8", "utf-16"]), errors="replace"), "auto")
        survives("SELECT * { " + some.decode("utf-8", errors="surrogateescape"), "cqels")
        survives("".join(rng.choice(PIECES) + rng.choice(["", " "]) for _ in range(rng.randrange(40))), rng.choice(names()))


NESTED: dict[str, Callable[[int], str]] = {
    "groups": lambda n: "SELECT * " + "{ " * n + "}" * n,
    "groups that stay open": lambda n: "SELECT * " + "{ " * n,
    "brackets": lambda n: "SELECT * { FILTER(" + "(" * n + "1" + ")" * n + ") }",
    "nots": lambda n: "SELECT * { FILTER(" + "!" * n + "?x) }",
    "optionals": lambda n: "SELECT * { " + "OPTIONAL { ?a ?b ?c " * n + "}" * n + "}",
    "sub-selects": lambda n: "{ SELECT * ".replace("{ ", "", 1) + "{ SELECT * " * n + "{ ?a ?b ?c }" + "}" * n,
    "calls": lambda n: "SELECT * { FILTER(" + "STR(" * n + "?x" + ")" * n + ") }",
    "blank nodes": lambda n: "SELECT * { ?x ?y " + "[ ?a " * n + "1" + "]" * n + " }",
    "collections": lambda n: "SELECT * { ?x ?y " + "(" * n + "1" + ")" * n + " }",
    "exists": lambda n: "SELECT * { " + "FILTER EXISTS { ?a ?b ?c " * n + "}" * n + "}",
    "windows": lambda n: "PREFIX : <http://e/> SELECT * { " + "STREAM :S [NOW] { ?a ?b ?c " * n + "}" * n + "}",
}


@pytest.mark.parametrize("kind", NESTED)
def test_deep_nesting(kind: str) -> None:
    for depth in (10, 100, 1000, 5000):
        said = survives(NESTED[kind](depth), "cqels")
        assert said is None or depth > 10 or "stay open" in kind or kind == "windows"
        assert said is None or "stay open" in kind or "too deeply" in said


LONG: dict[str, Callable[[int], str]] = {
    "triples": lambda n: "SELECT * { " + "?a <http://e/p> 'x' . " * n + "}",
    "objects": lambda n: "SELECT * { ?a <http://e/p> " + ", ".join(f"'{i}'" for i in range(n)) + " }",
    "disjunction": lambda n: "SELECT * { ?a ?b ?c FILTER(" + " || ".join(f"?c = {i}" for i in range(n)) + ") }",
    "filters": lambda n: "SELECT * { ?a ?b ?c " + "FILTER(?a > 1) " * n + "}",
    "unions": lambda n: "SELECT * { " + " UNION ".join(["{ ?a ?b ?c }"] * n) + " }",
    "values": lambda n: "SELECT * { VALUES ?x { " + "1 " * n + "} }",
    "columns": lambda n: "SELECT " + " ".join(f"?v{i}" for i in range(n)) + " { ?v1 ?v2 ?v3 }",
    "binds": lambda n: "SELECT * { " + " ".join(f"BIND({i} AS ?v{i})" for i in range(n)) + " }",
    "windows": lambda n: "PREFIX : <http://e/> SELECT * " + " ".join(f"FROM NAMED :s [NOW] AS ?w{i}" for i in range(n)) + " { }",
    "prefixes": lambda n: " ".join(f"PREFIX p{i}: <http://e/{i}>" for i in range(n)) + " SELECT * { }",
    "comments": lambda n: "# so\n" * n + "SELECT * { }",
    "a long string": lambda n: "SELECT * { ?a ?b '" + "x" * (20 * n) + "' }",
    "a long word": lambda n: "SELECT * { " + "x" * (20 * n) + " }",
    "an open string": lambda n: "SELECT * { ?a ?b '" + "x\\" * (20 * n),
    "template": lambda n: "CONSTRUCT { " + "?a <http://e/p> [] . " * n + "} { ?a ?b ?c }",
}


def calls(work: Callable[[], object]) -> int:
    """The number of Python and built-in function calls: a deterministic measure of work."""
    count = 0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.long
@pytest.mark.parametrize("kind", LONG)
def test_steps_grow_with_the_text(kind: str) -> None:
    """Four times the text takes at most about four times the steps."""
    survives(LONG[kind](5), "cqels")  # the grammar is cached
    few, many = (calls(lambda n=n: survives(LONG[kind](n), "cqels")) for n in (100, 400))
    assert many < 5 * few, (few, many)
