"""The time to encode a batch's terms to ids and compare them with known terms (pytest-benchmark; no assertion about time).

A batch of 5,000 triples, whose subjects are terms of a store and whose objects are on pages of terms of the windows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pytest_benchmark.fixture import BenchmarkFixture

from cqels_opt.lod.build import build_store
from cqels_opt.operators.term_table import write_page
from cqels_opt.rdf.ids import encode, encode_one
from cqels_opt.runtime.ingest import IngestTask, ingest
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.element_rows import ELEMENT_ROWS

ROWS, KNOWN, PAGES = 5_000, 200_000, 8
AT, NAME = "<http://ex.org/at>", "<http://ex.org/name>"


def test_ingest_of_a_batch(tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    (tmp_path / "slots").mkdir()
    people = [f"<http://ex.org/person/{i}>" for i in range(KNOWN)]
    scheme = build_store(tmp_path / "store", ((s, NAME, f'"{i}"', None) for i, s in enumerate(people)), durable=False).scheme
    held = [[f"<http://ex.org/place/{page}/{i}>" for i in range(ROWS)] for page in range(PAGES)]
    for page, texts in enumerate(held):
        write_page(tmp_path / f"page{page}", encode(texts, scheme), texts)
    random = np.random.default_rng(1)
    chosen = zip(random.integers(0, PAGES, ROWS).tolist(), random.integers(0, ROWS, ROWS).tolist())
    columns = {
        **dict.fromkeys(("stream", "partition"), np.zeros(ROWS, np.int64)),
        **dict.fromkeys(("offset", "t", "line"), np.arange(ROWS)),
        **{"s": [people[i] for i in random.integers(0, KNOWN, ROWS)], "p": [AT] * ROWS},
        **{"o": [held[page][i] for page, i in chosen], "g": pa.nulls(ROWS, pa.string()), "late": np.zeros(ROWS, bool)},
    }
    rows = pa.table(columns).select(ELEMENT_ROWS.names).cast(ELEMENT_ROWS)
    shape = Shape("<s>", (0, encode_one(AT, scheme), 0), (0, -1, 1))
    pages = tuple(str(tmp_path / f"page{page}") for page in range(PAGES))
    task = IngestTask(str(tmp_path), 0, ("<s>",), (shape,), str(tmp_path / "store"), scheme, -1, frozenset(), pages)
    report = benchmark(ingest, rows, task, "t")
    assert not report.losers and report.streams["<s>"].elements == ROWS
