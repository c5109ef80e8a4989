"""The world of the script, and the answers that it must give whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, World, register

from cqels_opt.bench.social import PLACES_GRAPH, STREAM, social
from cqels_opt.verify import read_inputs

QUERY = Path(__file__).resolve().parents[2] / "bench" / "report_queries" / "q2.rq"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    social(folder, authors=400, papers=400, coauthor_pairs=6000, places=20, elements=6000, rate=200)
    return folder


@pytest.fixture(scope="module")
def expected(world: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The answers of one process without Spark."""
    streams = [(STREAM, world / "stream.ndjson")]
    inputs = read_inputs(streams, [world / "static.nt"], [(PLACES_GRAPH, world / "places.nt")]).inputs
    read = World({STREAM: [inputs.streams[STREAM]]}, inputs.default, inputs.graphs)
    query = register(QUERY.read_text(encoding="utf-8"), read, tmp_path_factory.mktemp("local"))
    return sorted(query.run(Cut("2000")).lines)
