"""docs/migrating.md: every query of the page is read; every command gives the answers below it, and the independent evaluation agrees.

``CQELS_OPT_WRITE=1`` writes the answers of the commands.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from pages import DOCS

from cqels_opt.bench.local import Prepared, load
from cqels_opt.cli.grammar import parse as parse_command
from cqels_opt.cli.query_requests import query_requests
from cqels_opt.cli.verification import judged
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.dialect_profile import query_semantics, with_window_semantics
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.verify.inputs import read_inputs
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

PAGE = DOCS / "migrating.md"
TEXT = PAGE.read_text(encoding="utf-8")
RUN = re.compile(r"```sparql\n((?:(?!```).)*)```\n\n```\n(cqels-opt run (\S+) [^\n]*)\n```\n\n```json\n(.*?)```", re.DOTALL)
EXAMPLES = [found.groups() for found in RUN.finditer(TEXT)]
DIALECTS = {"C-SPARQL": "csparql", "CQELS": "cqels", "RSP4J": "rspql"}
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)}


def answers(command: str, query: str) -> list[str]:
    """The lines that a command of the page prints, in a folder with the files of the page. The independent evaluation has judged them."""
    for kind, name in (("ndjson", "s.ndjson"), ("turtle", "places.nt")):
        Path(name).write_text(re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)[0], encoding="utf-8")
    words = shlex.split(command)[1:]
    Path(words[1]).write_text(query, encoding="utf-8")
    options = parse_command(words)[1]
    (request,) = query_requests(options)
    meant = query_semantics(
        request.query, options.profile, request.report, options.output_operator, options.duplicates, request.t0
    )
    sources = [StaticSource(path) for path in options.static] + [StaticSource(path, iri) for iri, path in options.graphs]
    here = Path.cwd()
    store = load(here / "store", sources)
    (here / "query").mkdir()
    bounded = with_window_semantics(request.query, options.profile, options.bounds)
    program = Compiler(bounded, str(store), here / "query", meant.report, meant.duplicates == "set").compile("q", meant.operator)
    replay = cut([ReplaySource(f"<{iri}>", (path,)) for iri, path in options.streams], here / "replay", BatchSize(count=2))
    _, lines = Prepared("q", program, replay, here / "query").finish(here / "state", out=here / "answers.jsonl")
    inputs = read_inputs(options.streams, options.static, options.graphs).inputs
    (verdict,), *_ = judged(options, inputs, here / "answers.jsonl")
    assert verdict.equal, verdict.text()
    return lines


@pytest.mark.parametrize(("query", "command", "file", "shown"), EXAMPLES, ids=[file for _, _, file, _ in EXAMPLES])
def test_a_command_gives_what_stands_below_it(
    query: str, command: str, file: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = "".join(line + "\n" for line in answers(command, query))
    if os.environ.get("CQELS_OPT_WRITE"):
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            page.replace(f"{command}\n```\n\n```json\n{shown}```", f"{command}\n```\n\n```json\n{found}```"), encoding="utf-8"
        )
    else:
        assert found
        assert sorted(found.splitlines()) == sorted(shown.splitlines())


def test_each_engine_has_its_program_and_ours() -> None:
    for engine in DIALECTS:
        assert "```java\n" in SECTIONS[engine] and RUN.search(SECTIONS[engine]), engine
        for word in ("windows", "reports", "operators"):
            assert f"| **{word}** |" in SECTIONS[engine]


def test_every_query_is_read_in_the_language_of_its_engine() -> None:
    for engine, dialect in DIALECTS.items():
        texts = re.findall(r"^```sparql\n(.*?)^```", SECTIONS[engine], re.DOTALL | re.MULTILINE)
        assert len(texts) >= 2
        for text in texts:
            query = parse(text)
            assert query.dialect == dialect
            assert query.windows


def test_the_query_in_a_program_is_the_query_below_it() -> None:
    """Theirs and ours have the same text: what differs is the program around it."""

    def plain(text: str) -> str:
        return " ".join(text.split()).replace("( ", "(")

    for engine in DIALECTS:
        program, ours = (re.findall(rf"```{kind}\n(.*?)```", SECTIONS[engine], re.DOTALL)[0] for kind in ("java", "sparql"))
        theirs = "".join(re.findall(r'^  (?:  |\+ )"([^"]*)"', program, re.MULTILINE))
        assert plain(ours) == plain(theirs), engine
