"""Pages, help texts and messages: words that they may not use, spelling, and links."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
from pages import PAGES, ROOT, anchors, links, name

from cqels_opt.cli.grammar import make_commands

INSTEAD = {
    r"\bdear(er|est)?\b": "expensive",
    r"\banew\b": "again",
    r"\bhangs? on\b": "depends on",
    r"\bputs? out\b": "emits",
    r"\b(go(es)?|went) on\b": "continues, resumes",
    r"\bbeside\b": "next to, in addition to",
    r"\b(elements|ms|milliseconds|seconds) a (batch|second|row)\b": "… per …",
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
EXCEPTIONS = {"CHANGELOG.md", "docs/glossary.md", "docs/contributing.md"}


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


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) not in EXCEPTIONS], ids=name)
def test_pages(page: Path) -> None:
    assert findings(page.read_text(encoding="utf-8")) == []


def help_texts() -> Iterator[tuple[str, str]]:
    group = make_commands()
    top = click.Context(group, info_name="cqels-opt")
    yield "cqels-opt", group.get_help(top)
    for word in group.list_commands(top):
        command = group.get_command(top, word)
        assert command is not None
        yield word, command.get_help(click.Context(command, top, word))


def test_help_texts() -> None:
    found = {name: findings(text) for name, text in help_texts()}
    assert len(found) > 10
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


# ------------------------------------------------------------------ spelling
def test_spelling() -> None:
    """codespell over pages and code, as ``make lint`` runs it: pyproject.toml has the words that are right here."""
    lint = re.search(r"^lint:.*?codespell (.*?)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert lint
    done = subprocess.run([sys.executable, "-m", "codespell_lib", *lint[1].split()], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------ links
def broken(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead to no file, or to no anchor of a page."""
    found = []
    for link in links(text):
        target, _, anchor = unquote(link.group(2)).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or not file.is_relative_to(ROOT):
            found.append(f"{link.group(2)}: there is no such file")
        elif anchor and (
            file.suffix != ".md" or anchor not in anchors(text if file == page else file.read_text(encoding="utf-8"))
        ):
            found.append(f"{link.group(2)}: there is no such anchor")
    return found


def test_a_broken_link_is_found() -> None:
    text = "# A `b` [c](https://no.where) d\\_e\n[1](#a-b-c-d_e) [2](glossary.md#frontier) `[x](y.md)` [3](none.md) [4](glossary.md#none)"
    assert broken(ROOT / "docs" / "cli.md", text) == [
        "none.md: there is no such file",
        "glossary.md#none: there is no such anchor",
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []
