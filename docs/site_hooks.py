"""What the site has beside the pages of this folder: the README as its home, and the source files that pages link to.

A link that leaves the folder goes to a page made of that file, so that the site needs neither a network nor a hosted repository.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)(#[^)]*)?\)")
LANGUAGES = {".py": "python", ".sql": "sql", ".rq": "sparql", ".toml": "toml", ".yml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the home page, a page a source file that others link to, and the decisions' list."""
    pages = {"index.md": _from_root((ROOT / "README.md").read_text(encoding="utf-8"))}
    pages["decisions/index.md"] = _decisions()
    pages["CHANGELOG.md"] = _from_root((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    for file in list(files.documentation_pages()):
        for target in _outside(file.src_uri, file.content_string):
            pages[_page_of(target)] = _shown(ROOT / target)
    for target in _outside("index.md", pages["index.md"]):
        pages[_page_of(target)] = _shown(ROOT / target)
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: object, config: MkDocsConfig, files: Files) -> str:
    """Points links that leave the folder to the pages made for them, and links to folders to their lists."""
    uri: str = page.file.src_uri  # type: ignore[attr-defined]

    def moved(match: re.Match[str]) -> str:
        before, link, anchor = match.group(1), match.group(2), match.group(3) or ""
        target = _target(uri, link)
        if target is None:
            return match.group(0)
        return f"{before}{posixpath.relpath(target, posixpath.dirname(uri) or '.')}{anchor})"

    return _outside_code(markdown, moved)


def _outside_code(markdown: str, moved: object) -> str:
    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)  # type: ignore[call-overload]


def _target(uri: str, link: str) -> str | None:
    """The page that a link means, as a path in the site; None where it may stay."""
    if ":" in link:
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(uri), link))
    if path == "README.md":
        return "index.md"
    if path == "CHANGELOG.md":
        return "CHANGELOG.md"
    if path == "docs/decisions":
        return "decisions/index.md"
    if not path.startswith("docs/") or path.endswith(".rq"):
        return _page_of(path)
    return None


def _outside(uri: str, markdown: str) -> list[str]:
    """The paths in the project of the files outside of this folder that a page links to."""
    found: list[str] = []

    def seen(match: re.Match[str]) -> str:
        target = _target(uri, match.group(2))
        if target is not None and target.startswith("source/"):
            found.append(posixpath.normpath(posixpath.join("docs", posixpath.dirname(uri), match.group(2))))
        return match.group(0)

    _outside_code(markdown, seen)
    return found


def _page_of(path: str) -> str:
    return f"source/{path}.md"


def _shown(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        shown = sorted(p for p in path.iterdir() if p.is_file() and p.suffix in LANGUAGES)
        return f"# {name}\n\n" + "\n".join(f"## {p.name}\n\n{_code(p)}" for p in shown)
    if path.suffix == ".ipynb":
        return _notebook(path)
    return f"# {name}\n\n{_code(path)}"


def _notebook(path: Path) -> str:
    """The cells of a notebook as a page: text as text, code as code."""
    up = "../" * (len(path.relative_to(ROOT).parts) - 1)
    parts = [f"This page is the notebook `{path.relative_to(ROOT).as_posix()}`."]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(f"````python\n{text}\n````" if cell["cell_type"] == "code" else text.replace(f"]({up}docs/", f"](../{up}"))
    return "\n\n".join([parts[1], parts[0], *parts[2:]]) + "\n"


def _code(path: Path) -> str:
    return f"````{LANGUAGES.get(path.suffix, '')}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n"


def _from_root(text: str) -> str:
    """A page of the project's own folder as one of this folder."""
    return re.sub(r"\]\((?!https?:|#)(docs/)?", lambda link: "](" if link.group(1) else "](../", text)


def _decisions() -> str:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    titles = (p.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for p in pages)
    return "# Decisions\n\nWhy it is as it is.\n\n" + "\n".join(f"- [{title}]({p.name})" for title, p in zip(titles, pages))
