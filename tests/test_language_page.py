"""docs/language.md: every example of the page runs, puts out the lines that stand below it, and the independent evaluation agrees.

``CQELS_OPT_WRITE=1`` writes the lines of the examples anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from local_runs import write_stream

from cqels_opt.bench.local import Prepared
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.lod.build import build_store
from cqels_opt.query.dialects import names
from cqels_opt.query.dialects.registry import recognise
from cqels_opt.query.parser import parse
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.verify import Element, Inputs, Options, judge, read_answers
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

PAGE = Path(__file__).parents[1] / "docs" / "language.md"
TEXT = PAGE.read_text(encoding="utf-8")
STREAM = "http://ex.org/s"
EXAMPLES = [(m[1], m[2]) for m in re.finditer(r"```sparql\n(.*?)```\n\n```json\n(.*?)```", TEXT, re.DOTALL)]
POLICIES = {"cqels": "cc", "csparql": "wc,nc", "sparqlstream": "wc,nc", "rspql": "wc", "streaming-sparql": "cc"}
"""The report policies of the profiles, as the independent evaluation writes them."""


def block(kind: str) -> str:
    """The first block of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)[0]


def elements() -> list[Element]:
    rows = [json.loads(line) for line in block("ndjson").splitlines()]
    return [Element(row["t"], ((row["s"], row["p"], row["o"]),)) for row in rows]


def statics() -> list[tuple[str, str, str]]:
    return [(m[1], m[2], m[3]) for m in re.finditer(r"^(\S+) (\S+) (.+) \.$", block("turtle"), re.MULTILINE)]


def answers(text: str, folder: Path) -> list[str]:
    """The lines that the engine puts out, which the independent evaluation has judged."""
    query = parse(text)
    meant = query_semantics(query)
    build_store(folder / "store", [(*triple, None) for triple in statics()], durable=False)
    (folder / "query").mkdir()
    compiler = Compiler(query, str(folder / "store"), folder / "query", meant.report, meant.duplicates == "set")
    program = compiler.compile("q", meant.operator)
    write_stream(folder / "s.ndjson", elements())
    replay = cut([ReplaySource(f"<{STREAM}>", (folder / "s.ndjson",))], folder / "replay", BatchSize(count=2))
    prepared = Prepared("q", program, replay, folder / "query")
    sink = LocalSink()
    driver = prepared.driver(folder / "state", sink)
    for number, rows in enumerate(prepared.chunks()):
        driver.batch(number, rows)
    (folder / "answers.jsonl").write_text("".join(line + "\n" for line in sink.lines), encoding="utf-8")
    options = Options(POLICIES[query.dialect], operator=meant.operator, duplicates=meant.duplicates)
    verdict = judge(query, Inputs({STREAM: elements()}, statics()), options, read_answers(folder / "answers.jsonl"))
    assert verdict.equal, verdict.text()
    return sink.lines


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_gives_what_stands_below_it(number: int, tmp_path: Path) -> None:
    text, shown = EXAMPLES[number]
    found = "".join(line + "\n" for line in answers(text, tmp_path))
    if os.environ.get("CQELS_OPT_WRITE"):
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replace(f"{text}```\n\n```json\n{shown}```", f"{text}```\n\n```json\n{found}```"), encoding="utf-8")
    else:
        assert sorted(found.splitlines()) == sorted(shown.splitlines())


def test_every_dialect_has_examples_and_is_recognised_by_them() -> None:
    assert {recognise(text).name for text, _ in EXAMPLES} == set(POLICIES) == set(names())
    sections = dict(re.findall(r"^## [^\n]*\(`([a-z-]+)`\)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
    assert set(sections) == set(names())
    for heading, section in sections.items():
        mine = {recognise(text).name for text in re.findall(r"```sparql\n(.*?)```", section, re.DOTALL)}
        assert mine == {heading}
