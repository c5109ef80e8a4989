"""Pages, help texts and messages use the field's terms and plain technical English: a list of words that may not occur."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqels_opt.cli.arguments import make_parser

ROOT = Path(__file__).resolve().parents[1]

INSTEAD = {
    r"\bdear(er|est)?\b": "expensive",
    r"\banew\b": "again",
    r"\bhangs? on\b": "depends on",
    r"\bputs? out\b": "emits",
    r"\bgo(es)? on\b": "continues, resumes",
    r"\bwhoever\b": "the component that",
    r"\b(is|are) told\b": "is reported",
    r"\blearnt\b": "observed",
    r"\bdoom(ed)?\b": "scheduled for deletion",
    r"\bhurr(y|ied)\b": "reset the budget",
    r"\bworkshops?\b": "background jobs",
    r"\btake-?overs?\b": "backfill, migration",
    r"\bof (now|then)\b": "current, that was current at",
    r"\bthinking longer\b": "re-optimization",
    r"\bthe way back\b": "recovery",
    r"\ba (row|node|line|file|folder|column|plan|sentence|record) an? [a-z]+\b": "one … per …",
    r"\bwhat (is|are) (looked at|asked)\b": "what is evaluated",
    r"\bis no wall\b": "does not block",
    r"\bsaid (once|as such)\b": "reported",
}
EXCEPTIONS = {"docs/glossary.md", "docs/contributing.md"}
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if str(p.relative_to(ROOT)) not in EXCEPTIONS)


def findings(text: str) -> list[str]:
    """The words of a text that may not occur, with what to write instead. Code is not prose."""
    prose = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", " ", text, flags=re.S)
    return [
        f"{found.group(0)!r}: write {instead!r}"
        for pattern, instead in INSTEAD.items()
        for found in re.finditer(pattern, prose, re.I)
    ]


def test_the_list_finds_what_it_bans() -> None:
    assert findings("A node a pattern; the dear join hangs on it, and goes on.") != []
    assert findings("One node per pattern; `dear` and ```anew``` are code. It depends on the plan.") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert findings(page.read_text(encoding="utf-8")) == []


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_help_texts() -> None:
    found = {parser.prog: findings(parser.format_help()) for parser in parsers(make_parser())}
    assert {name: words for name, words in found.items() if words} == {}


def messages(tree: ast.AST) -> Iterator[str]:
    """The texts in what a module raises or warns of."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node if isinstance(node, ast.Call) else None
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if isinstance(node, ast.Raise) or name in ("warn", "note"):
            yield " ".join(
                part.value for part in ast.walk(call) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


def test_messages() -> None:
    found: dict[str, list[str]] = {}
    for module in sorted((ROOT / "cqels_opt").rglob("*.py")):
        for text in messages(ast.parse(module.read_text(encoding="utf-8"))):
            if words := findings(text):
                found.setdefault(str(module.relative_to(ROOT)), []).extend(words)
    assert found == {}
