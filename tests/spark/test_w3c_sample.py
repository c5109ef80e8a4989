"""A sample of the W3C's query tests with the command line: static data, and the same data as one element of a stream.

tests/conformance/test_w3c_evaluation.py runs all of them without Spark; these few show that texts and files change nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqels_opt.bench.local import write_elements
from cqels_opt.bench.w3c.manifest import ARCHIVE, W3CTest, read_tests, unpacked
from cqels_opt.bench.w3c.results import difference, read_result
from cqels_opt.bench.w3c.running import ELEMENTS, TICKS, WAYS, Way, check, data_of, ordered_by, result_of
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.grammar import load
from cqels_opt.query.parser import parse
from cqels_opt.query.reading import branches, only, span
from cqels_opt.rdf.terms import literal
from cqels_opt.verify import Element

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.needs_shared_data
EVERY = 17
"""The size of the sample: tests with one data file that pass without Spark."""


@pytest.fixture(scope="module")
def sample(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[W3CTest]:
    folder = unpacked(shared_data / "w3c" / ARCHIVE, tmp_path_factory.mktemp("w3c"))
    found = [t for t in read_tests(folder, "1.1") if t.kind == "evaluation" and len(t.data) == 1 and not t.graphs]
    return [test for test in found[::EVERY] if check(test, "stream").passes]


def rewritten(text: str, way: Way) -> str:
    """The query with a window that its body does not use; as a stream, with its body in another window."""
    tree = load(find("cqels").grammar).parse(text)
    query = next(part for part in branches(branches(tree)[0]) if part.data.endswith("_query"))
    where = only(query, "where_clause")
    assert where is not None
    (group,) = branches(where)
    start, end = span(group)
    body = f"{{ STREAM <{ELEMENTS}> [ALL] {text[start:end]} }}" if way == "stream" else text[start:end]
    before = span(where)[0]
    return f"{text[:before]} FROM NAMED <{TICKS}> [ALL] AS ?tick WHERE {body} {text[end:]}"


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_sample_passes_through_spark(sample: list[W3CTest], way: Way, tmp_path: Path, spark: SparkSession) -> None:
    assert len(sample) >= 8
    for number, test in enumerate(sample):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "q.rq").write_text(rewritten(test.text, way), encoding="utf-8")
        write_elements(folder / "ticks.ndjson", [Element(1000, (("<urn:t>", "<urn:t>", literal("tick")),))])
        write_elements(folder / "elements.ndjson", [Element(1000, tuple((s, p, o) for s, p, o, _ in data_of(test)))])
        streams = [(TICKS, folder / "ticks.ndjson"), (ELEMENTS, folder / "elements.ndjson")]
        options = RunOptions(
            query=folder / "q.rq",
            streams=tuple(streams[: 2 if way == "stream" else 1]),
            static=test.data if way == "static" else (),
            dialect="cqels",
            output_operator="rstream",
            out=folder / "answers.jsonl",
        )
        in_session(spark, options, folder / "state", lambda records: None)
        lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
        assert test.result is not None
        query = parse(test.text, "cqels")
        assert difference(result_of(lines), read_result(test.result), ordered_by(query), test.lax) is None, test.label
