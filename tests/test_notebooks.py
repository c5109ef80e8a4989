"""The notebooks of examples/notebooks run from beginning to end, without Spark; what they print is what their text says."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pages import ROOT, name

from cqels_opt.trace.records import Delta, Milliseconds, Moved, OperatorRecord, TraceRecord

FOLDER = ROOT / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
PRINTED = {
    "plan_switching": r"the same in 4 runs\n",
    "adding_a_contender": r"dictionaries +[\d.]+ ms per batch \(median of 4\), \d+ answers\n(?s:.*)"
    r"wrong gives other answers than adaptive: at \d+: \d+ answers, and \d+\nexit code [1-9]\na report was written: False\n",
    "reading_a_trace": r"batch \d+, lsnow: now [A-Z]\n    \w+\(.*\): [\d,]+ -> [\d,]+\n(?s:.*)estimates are within a factor of 2\n",
}
"""A pattern of what each notebook prints."""


def cells(book: Path, kind: str) -> list[str]:
    return [cell.source for cell in nbformat.read(book, 4).cells if cell.cell_type == kind]


@pytest.mark.long
@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_notebook_runs(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    copied = Path(shutil.copytree(FOLDER, tmp_path / "notebooks"))
    scripts = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    read: Any = nbformat.read(book, 4)
    NotebookClient(read, timeout=600, resources={"metadata": {"path": str(copied)}}).execute()
    outputs = [output for cell in read.cells for output in cell.get("outputs", ())]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert re.search(PRINTED[book.stem], printed), printed


def test_any_trace_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """A statistic may have been unknown before, and the time may be the sink's."""
    moved = Moved("selectivity(?x > 3)", None, 0.25)
    delta = Delta("w", "w » a[?x]", switched=True, reason=(moved,), operators=(OperatorRecord("scan", "w", (), None, 2),))
    record = TraceRecord(3, "q", None, None, 1, deltas=(delta,), ms=Milliseconds(ingest=25.0, sink=75.0))
    variables: dict[str, Any] = {"records": [record], "table": lambda heads, rows: print(heads, *rows)}
    for code in cells(FOLDER / "reading_a_trace.ipynb", "code")[1:-1]:
        exec(code, variables)
    printed = capsys.readouterr().out
    assert "selectivity(?x > 3): unknown -> 25 %\n" in printed
    assert "('sink', '75%')" in printed


def test_there_are_three_notebooks_without_outputs() -> None:
    assert {book.stem for book in BOOKS} == set(PRINTED)
    for book in BOOKS:
        for cell in nbformat.read(book, 4).cells:
            assert not cell.get("outputs"), f"{name(book)}: clear its outputs"


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_the_code_of_a_notebook_is_python_and_finds_its_helpers(book: Path) -> None:
    helper = ast.parse((FOLDER / "without_spark.py").read_text(encoding="utf-8"))
    defined = {node.name for node in helper.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for source in cells(book, "code"):
        tree = ast.parse(re.sub(r"^!", "# ", source, flags=re.MULTILINE))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "without_spark":
                assert {one.name for one in node.names} <= defined


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_the_links_of_a_notebook_lead_to_pages(book: Path) -> None:
    from pages import anchors

    found = [link for text in cells(book, "markdown") for link in re.findall(r"\]\(([^)]+)\)", text)]
    assert found
    for link in found:
        file, _, anchor = link.partition("#")
        page = (FOLDER / file).resolve()
        assert page.is_file(), link
        assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), link
