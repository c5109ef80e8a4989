"""The pages: their examples work, what they quote from the program is there, and they link the terms of the glossary.

``CQELS_OPT_WRITE=1`` writes the missing links to the glossary, and the code of the examples on docs/extending.md.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pages import DOCS, PAGES, ROOT, Term, name, terms, unlinked

import cqels_opt
from cqels_opt.plugins import PREFIX, Group

WITH_EXAMPLES = [page for page in PAGES if ">>> " in page.read_text(encoding="utf-8")]
PACKAGE = Path(cqels_opt.__file__).parent  # of the wheel, where that is installed
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_examples_of_pages(page: Path) -> None:
    done = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert done.attempted and not done.failed


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module))
    assert done.attempted and not done.failed


# ------------------------------------------------------------------ the navigation
def test_every_page_is_in_the_navigation() -> None:
    navigation = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert {p for p in pages if not p.startswith("decisions/")} <= set(navigation)
    assert len(navigation) == len(set(navigation))


def test_every_page_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted(DOCS.glob("*.md")) if f"(docs/{page.name})" not in readme] == []


# ------------------------------------------------------------------ docs/extending.md
EXTENDING = DOCS / "extending.md"


def shown(block: str) -> tuple[str, str, str] | None:
    """The file that a block names in its first line, ``# FILE`` or ``# FILE: REGION``; the region; and the rest of the block."""
    found = re.match(r"# (examples/[\w/]+\.py)(?:: ([\w-]+))?\n(.*)", block, re.DOTALL)
    return (found[1], found[2] or "", found[3]) if found else None


def content(file: str, region: str) -> str:
    """A file of the examples, or what lies between its lines ``# region REGION`` and ``# endregion``."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if not region:
        return text
    found = re.search(rf"^# region {re.escape(region)}\n(.*?)^# endregion$", text, re.DOTALL | re.MULTILINE)
    assert found, f"{file} has no region {region}"
    return found[1]


SHOWN = [one for block in blocks(EXTENDING, "python") if (one := shown(block))]


def test_the_code_of_the_page_on_extending_is_that_of_the_examples() -> None:
    assert len(SHOWN) >= 2
    if os.environ.get("CQELS_OPT_WRITE"):
        text = EXTENDING.read_text(encoding="utf-8")
        for file, region, code in SHOWN:
            text = text.replace(code, content(file, region))
        EXTENDING.write_text(text, encoding="utf-8")
        return
    for file, region, code in SHOWN:
        assert code.strip() == content(file, region).strip(), file


def test_every_example_of_an_extension_is_on_the_page() -> None:
    files = {f"examples/extending/{path.name}" for path in (ROOT / "examples" / "extending").glob("*.py")}
    assert {file for file, _, _ in SHOWN} == files


def test_the_entry_points_of_the_page_on_extending_are_there() -> None:
    defined = {node.id for file, _, _ in SHOWN for node in _assigned_or_defined(ROOT / file)}
    groups = set()
    for block in blocks(EXTENDING, "toml"):
        for group, entries in tomllib.loads(block)["project"]["entry-points"].items():
            groups.add(group.removeprefix(PREFIX))
            assert {value.partition(":")[2] for value in entries.values()} <= defined
    assert groups and groups <= set(get_args(Group))
    text = EXTENDING.read_text(encoding="utf-8")
    assert [group for group in get_args(Group) if f"`{PREFIX}{group}`" not in text] == []


def _assigned_or_defined(file: Path) -> Iterator[ast.Name]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield ast.Name(node.name)
        for target in [*getattr(node, "targets", ()), getattr(node, "target", None)]:
            if isinstance(target, ast.Name):
                yield target


# ------------------------------------------------------------------ docs/troubleshooting.md
def templates() -> Iterator[str]:
    """The texts in the program, with ``…`` for what an f-string fills in."""
    for module in sorted(Path(cqels_opt.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_messages_of_the_page_on_troubleshooting_are_those_of_the_program() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \|", page.partition("## No message")[0], re.MULTILINE)
    assert 25 <= len(quoted) <= 60
    known = list(templates())
    patterns = {message: re.compile(".*".join(map(re.escape, message.strip("… ").split("…"))), re.DOTALL) for message in quoted}
    assert [message for message, pattern in patterns.items() if not any(map(pattern.search, known))] == []


# ------------------------------------------------------------------ docs/glossary.md
WITH_TERMS = [page for page in PAGES if name(page) not in ("CHANGELOG.md", "docs/glossary.md", "docs/evaluation.md")]
"""Every page but the glossary itself, the changes, and the page that the harness writes."""


def test_a_term_without_a_link_is_found() -> None:
    (frontier,) = (term for term in terms() if term.anchor == "frontier")
    text = "# The frontier\n`frontier` ([frontiers](other.md)) {}\n```\nfrontier\n```\nFrontiers move."
    found = unlinked(text.format(""), frontier, "glossary.md")
    assert found is not None
    assert found.group() == "Frontiers"
    assert unlinked(text.format("[F](glossary.md#frontier)"), frontier, "glossary.md") is None


@pytest.mark.parametrize("page", WITH_TERMS, ids=name)
def test_terms_are_linked_where_they_first_occur(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    glossary = os.path.relpath(DOCS / "glossary.md", page.parent)
    missing: list[Term] = []
    for term in terms():
        found = unlinked(text, term, glossary)
        if found is not None and os.environ.get("CQELS_OPT_WRITE"):
            text = f"{text[: found.start()]}[{found.group()}]({glossary}#{term.anchor}){text[found.end() :]}"
            page.write_text(text, encoding="utf-8")
        elif found is not None:
            missing.append(term)
    assert [term.anchor for term in missing] == []
