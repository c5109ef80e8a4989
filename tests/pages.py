"""Pages in Markdown as tests read them: prose without code, links, anchors, and terms of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])

_CODE = re.compile(r"(^|\n)([ \t]*)(```|~~~).*?\n[ \t]*\3|`[^`\n]*`|<!--.*?-->|<[^<>\n]+>", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^][]|\\.)*)\]\(([^()\s]+(?:\([^()]*\)[^()\s]*)?)\)")
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)
_TERM = re.compile(r'^\| <a id="([^"]+)"></a>([^|]+) \|', re.MULTILINE)


def name(page: Path) -> str:
    """A page's path in the project."""
    return page.relative_to(ROOT).as_posix()


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group(0))


def without_code(text: str) -> str:
    """The text with code, comments and tags as spaces: positions stay the same."""
    return _CODE.sub(_blank, text)


def links(text: str) -> Iterator[re.Match[str]]:
    """The links of a page: group 1 is the text, group 2 the target. Code between backquotes in a link's text does not hide the link."""
    fenced = re.sub(r"(^|\n)([ \t]*)(```|~~~).*?\n[ \t]*\3", _blank, text, flags=re.DOTALL)
    yield from _LINK.finditer(re.sub(r"`[^`\n]*`", _blank, fenced))


def anchors(text: str) -> set[str]:
    """What ``#…`` may name on a page: headings, as Python-Markdown and GitHub name them, and ``<a id=…>``."""
    fenced = re.sub(r"(^|\n)([ \t]*)(```|~~~).*?\n[ \t]*\3", _blank, text, flags=re.DOTALL)
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in _HEADING.findall(fenced):
        plain = _LINK.sub(r"\1", heading.lstrip("#").strip())
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain.replace("`", "")).strip().lower()))
    return found


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the glossary: its anchor, and how pages write it, singular or plural."""

    anchor: str
    pattern: re.Pattern[str]


EVERYDAY = frozenset(("block", "store", "template", "dictionary", "calibration"))
"""Anchors of terms that are also everyday words: pages link them where they mean the term."""


def terms() -> list[Term]:
    """The terms that pages link where they first occur."""
    found = []
    for anchor, written in _TERM.findall((DOCS / "glossary.md").read_text(encoding="utf-8")):
        names = re.sub(r"\([^)]*\)", "", written).split(",")
        words = "|".join(_inflected(one.strip()) for one in names)
        if anchor not in EVERYDAY:
            found.append(Term(anchor, re.compile(rf"(?<![\w-])(?:{words})(?![\w-]|/s)", re.IGNORECASE)))
    return found


def _inflected(word: str) -> str:
    *before, last = word.split(" ")
    plural = f"{re.escape(last[:-1])}(?:y|ies)" if last.endswith("y") else f"{re.escape(last)}(?:s|es)?"
    return r"\s+".join([*map(re.escape, before), plural])


def unlinked(text: str, term: Term, glossary: str) -> re.Match[str] | None:
    """The first occurrence of a term in a page's prose, if the page has no link to the term there or before."""
    other = list(links(text))
    prose = _HEADING.sub(_blank, without_code(text))
    mine = [found.start() for found in other if found.group(2) == f"{glossary}#{term.anchor}"]
    for found in term.pattern.finditer(prose):
        if any(start <= found.start() for start in mine):
            return None
        if not any(link.start() <= found.start() < link.end() for link in other):
            return found
    return None
