"""The report's world from real data: the counts of the data's README, and places that persist."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cqels_opt.bench.shared_data import Event, read_citations, read_contacts, read_papers, shared_world, whereabouts
from cqels_opt.rdf.streams import read_stream


def test_a_place_is_a_connected_component_that_lasts() -> None:
    contacts = [(1, 10, 11), (1, 11, 12), (1, 20, 21), (2, 20, 21), (2, 30, 31), (2, 10, 12), (3, 10, 20)]
    times, one, other = (np.array(column) for column in zip(*contacts))
    found = list(zip(*(column.tolist() for column in whereabouts(times, one, other))))
    assert found == [
        *[(1, 10, 0), (1, 11, 0), (1, 12, 0), (1, 20, 1), (1, 21, 1)],
        *[(2, 10, 0), (2, 12, 0), (2, 20, 1), (2, 21, 1), (2, 30, 2), (2, 31, 2)],
        *[(3, 10, 0), (3, 20, 0)],
    ]


@pytest.mark.needs_shared_data
def test_papers_and_citations_are_all_there(shared_data: Path) -> None:
    papers = read_papers(shared_data)
    assert len(papers) == 18041
    assert len({name for paper in papers for name in paper.authors}) == 13939
    assert sum(len(paper.authors) for paper in papers) == 45436 - 4  # four papers name an author twice
    assert any("Daumé III, Hal" in paper.authors for paper in papers)
    assert [paper.id for paper in papers if not paper.authors] == ["W10-4238"]
    assert (len({paper.venue for paper in papers}), len({paper.year for paper in papers})) == (423, 39)
    assert len(read_citations(shared_data, {paper.id for paper in papers})) == 82937


@pytest.mark.needs_shared_data
@pytest.mark.parametrize(
    ("event", "rows", "groups"), [("SFHH", 99_364, 11.2), ("ICCSS17", 241_432, 14.4), ("WS16", 137_464, 8.7)]
)
def test_contacts_become_whereabouts(shared_data: Path, event: Event, rows: int, groups: float) -> None:
    times, person, place = whereabouts(*read_contacts(shared_data, event))
    assert len(times) == rows
    assert (np.diff(times) >= 0).all()
    assert len(np.unique(np.column_stack([times, person]), axis=0)) == rows  # nobody is in two places at once
    rooms = len(np.unique(np.column_stack([times, place]), axis=0))
    assert round(rooms / len(np.unique(times)), 1) == groups


@pytest.mark.needs_shared_data
def test_the_world_is_written(shared_data: Path, tmp_path: Path) -> None:
    world = shared_world(shared_data, tmp_path, elements=5000)
    assert world.elements == 5000
    static = world.static.read_text(encoding="utf-8")
    people = {row["s"] for batch in read_stream(world.stream) for row in batch.to_pylist()}
    assert len(people) == world.participants
    assert all(f"\n{person} <http://purl.org/dc/elements/1.1/creator> " in static for person in people)
    assert static.count("<http://purl.org/dc/elements/1.1/creator>") == 2 * (45436 - 4)
