"""Random queries over all SPARQL 1.1 patterns: the engine's bag equals that of the definitions, on static data and on a window."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from by_definition import Dataset, answers
from hypothesis import HealthCheck, given, settings

from cqels_opt.bench.w3c.running import WAYS, Quads, Way, run
from cqels_opt.errors import QueryError
from cqels_opt.query.parser import parse

from .random_queries import PREFIX, dataset, select

Bag = Counter[frozenset[tuple[str, str]]]


def on_the_engine(text: str, data: Dataset, way: Way) -> Bag:
    quads: Quads = [(*triple, graph or None) for graph, triples in data.items() for triple in sorted(triples)]
    with tempfile.TemporaryDirectory() as folder:
        found = run(parse(text, "cqels"), quads, way, Path(folder))
    return Counter(frozenset(row.items()) for row in found.solutions or ())


def differs(text: str, data: Dataset, way: Way) -> str:
    """Describes a difference in the engine's answers; empty if the query is invalid."""
    try:
        query = parse(text, "cqels")
    except QueryError as error:
        assert "not supported" not in error.message
        return ""
    want = Counter(frozenset(row.items()) for row in answers(query, data))
    got = on_the_engine(text, data, way)
    return "" if got == want else f"{way}: lacks {want - got}, has {got - want}"


@pytest.mark.long
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(select(whole=True), dataset)
def test_the_engine_means_what_the_definitions_say(text: str, data: Dataset) -> None:
    for way in WAYS:
        assert not differs(PREFIX + text, data, way)
