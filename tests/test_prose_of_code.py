"""Docstrings and comments of the package use the field's terms and plain technical English: the list of ``test_prose`` and more."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from test_prose import findings

ROOT = Path(__file__).resolve().parents[1]

ROOMS = ("cqels_opt", "plans", "stats", "bench", "examples")  # rglob does not follow the links to the three rooms at the top

IN_CODE = {
    r"\b(tells?|told|said)\b": "reports, returns, distinguishes",
    r"\bhang\w* on\b": "depends on",
    r"\blook(s|ed)? at\b": "evaluates, reads, checks",
    r"\bstands? for\b": "represents, is",
    r"\bthat (is|are) there\b": "existing, that exists",
    r"\b(is|are) (no longer |not )?there\b": "exists",
    r"\b(which|what|that|one) (is|are) (?-i:none)\b": "is not",
    r"\b(right|directly|stands?|place|comes?|those) behind\b": "after",
    r"\b(come|comes|came) and (go|goes|went)\b": "are added and removed",
    r"\bin (its|their|the) place of\b": "instead of",
    r"\bis gone\b": "has ended, does not exist",
    r"\bfor ever\b": "always",
    r"\bso many\b": "this number of",
    r"\ba (batch|query|task|key|variable|value|second|relation|index|store|element) an? [a-z]+\b": "one … per …",
    r"\b(rows|elements|triples|milliseconds|ms|bytes|columns|batches) an? (batch|second|row|element|task|query)\b": "… per …",
    r"\bknows? (nothing|what|no)\b": "has no …",
    r"\bafresh\b": "again",
}
"""Words that the prose of code avoids too; ``INSTEAD`` is for pages, help texts and messages."""

EXCEPTIONS = {
    ("cqels_opt/verify/rewrite.py", "of NOW"),
    ("stats/interval_overlap.py", "of NOW"),
}
"""(file, words) with their ordinary meaning."""


def modules() -> Iterator[Path]:
    """The modules of the package and of the examples."""
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def docstrings(tree: ast.AST) -> Iterator[str]:
    """The docstrings of modules, classes and functions, and those below a constant or a field."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(text := getattr(statement.value, "value", None), str):
                yield inspect.cleandoc(text)


def comments(source: str) -> Iterator[str]:
    """The comments, those on consecutive lines as one text."""
    last, text = -2, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, body = token.start[0], token.string.lstrip("#: ")
        if row != last + 1:
            yield text
            text = ""
        last, text = row, f"{text} {body}".strip()
    yield text


def without_examples(text: str) -> str:
    """A docstring without doctests and without indented blocks, which are code."""
    kept = [line for line in text.splitlines() if not line.startswith(("    ", ">>>"))]
    return " ".join("\n".join(kept).split())


def words_of(source: str) -> list[str]:
    """The banned words in the docstrings and comments of a module."""
    found = []
    for text in [*map(without_examples, docstrings(ast.parse(source))), *comments(source)]:
        prose = re.sub(r"``[^`]*``|`[^`]*`|\"[^\"]*\"", " ", text)
        hits = [
            f"{hit.group(0)!r}: write {word!r}" for pattern, word in IN_CODE.items() for hit in re.finditer(pattern, prose, re.I)
        ]
        found += [f"{finding} in: {text[:60]}" for finding in [*findings(prose), *hits]]
    return found


def test_the_list_finds_what_it_bans() -> None:
    source = '"""A file a row."""\nx = 1  # it stands for y\n\n\ndef f() -> None:\n    """The dear one; ``anew`` is code."""\n'
    assert [word.partition(":")[0] for word in words_of(source)] == ["'A file a row'", "'dear'", "'stands for'"]
    assert words_of('"""One row per file.\n\n    a row a file\n\nThat is it.\n"""\n# A cheap plan.\n') == []


def test_code_says_it_plainly() -> None:
    found = {}
    for module in modules():
        name = str(module.relative_to(ROOT))
        words = [w for w in words_of(module.read_text(encoding="utf-8")) if (name, w.split("'")[1]) not in EXCEPTIONS]
        if words:
            found[name] = words
    assert found == {}
