"""CSRBench: our answers at every t0 are the independent evaluation's, and what is said of the real engines is so."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from cqels_opt.bench.csrbench import NUMBERS, elements, origins, read_query, runs
from cqels_opt.bench.csrbench_answers import compare_cqels, compare_windows, recorded

pytestmark = pytest.mark.needs_shared_data


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    return shared_data / "csrbench"


def test_the_stream_is_the_data_sets(folder: Path) -> None:
    found = elements(folder)
    assert (len(found), sum(len(e.triples) for e in found)) == (34, 15_188)
    assert [e.t for e in found] == [k * 1000 for k in range(34)]


def test_each_t0_that_the_slide_allows_is_tried() -> None:
    assert [len(origins(read_query("rspql", n))) for n in NUMBERS] == [10, 1, 4, 4, 1, 5, 5]
    assert [len(origins(read_query("csparql", n))) for n in NUMBERS] == [10, 1, 4, 4, 1, 5, 5]
    assert [origins(read_query("cqels", n)) for n in NUMBERS] == [[]] * 7


def test_cqels_answers_are_the_independent_evaluations_and_the_recorded_ones_are_explained(folder: Path) -> None:
    figures = {}
    for run in runs(elements(folder), ("cqels",)):
        assert run.verdict.equal, run.verdict.text()
        one = compare_cqels(run.number, recorded(folder, "cqels", run.number), run.answers)
        figures[run.number] = (one.rows, one.equal, one.missing, one.extra, one.correct)
    assert figures == {
        1: (15, 15, 0, 0, True),
        2: (15, 15, 0, 0, True),
        3: (12, 12, 0, 0, True),
        4: (15, 9, 16, 6, False),
        5: (15, 15, 0, 0, True),
        6: (92, 17, 0, 75, False),
        7: (957, 25, 46, 932, False),
    }


def test_rows_that_cqels_invents_pair_observations_of_more_than_the_window(folder: Path) -> None:
    def tick(observation: str) -> int:
        hour, minute = map(int, re.findall(r"_(\d\d)_(\d\d)_\d\d$", observation)[0])
        return (60 * hour + minute) // 5

    apart = Counter(
        abs(tick(cells["ob1"]) - tick(cells["obs"])) for _, bag in recorded(folder, "cqels", 6) for cells in map(dict, bag)
    )
    assert sum(n for ticks, n in apart.items() if ticks < 5) == 17
    assert sum(n for ticks, n in apart.items() if ticks > 5) == 75


def test_cqels_returns_every_temperature_as_an_answer_to_query_7(folder: Path) -> None:
    observed = {
        s[1:-1]
        for e in elements(folder)
        for s, p, o in e.triples
        if p.endswith("observedProperty>") and o.endswith("_AirTemperature>")
    }
    answered = [dict(cells)["ob1"] for _, bag in recorded(folder, "cqels", 7) for cells in bag.elements()]
    assert len(answered) == len(set(answered)) == 957 and set(answered) == observed


def test_windows_are_compared_at_their_instants_and_moved() -> None:
    def window(*rows: str) -> Counter[tuple[int, str, frozenset[tuple[str, str]]]]:
        return Counter((0, "=", frozenset({("x", f'"{row}"')})) for row in rows)

    def answer(*rows: str) -> Counter[frozenset[tuple[str, str]]]:
        return Counter(frozenset({("x", row)}) for row in rows)

    ours = {2000: window("a"), 4000: window("a", "b"), 6000: window("c")}
    exact = compare_windows("one", 1, [(2000, answer("a")), (4000, answer("a", "b"))], ours, 2000)
    assert (exact.equal, exact.moved, exact.correct, exact.why) == (2, None, True, "the same")
    late = compare_windows("one", 1, [(1000, answer("a")), (3000, answer("a", "b"))], ours, 2000)
    assert (late.equal, late.moved, late.equal_moved, late.correct) == (0, 1, 2, True)
    lost = compare_windows("one", 1, [(2000, answer("a")), (4000, answer("a")), (6000, answer("c", "d"))], ours, 2000)
    assert (lost.equal, lost.missing, lost.extra, lost.correct) == (1, 1, 1, False)
    assert lost.why == "at 4 s it lacks 1; at 6 s it has too many by 1"
    left_out = compare_windows("one", 1, [(2000, answer("a")), (6000, answer("c"))], ours, 2000)
    assert left_out.equal == 2 and not left_out.correct
