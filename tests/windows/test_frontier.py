"""The frontier: examples of SEMANTICS §4; and that nothing in time ever comes from behind it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.windows.frontier import Frontier, SourcePartition
from cqels_opt.windows.intervals import BEFORE_TIME

S, T = "http://ex.org/S", "http://ex.org/T"


def test_the_greatest_time_may_still_get_company() -> None:
    frontier = Frontier((S,))
    frontier.seen(0, S, 10, 0)
    assert frontier.advance() == 9
    frontier.seen(0, S, 10, 1)
    assert frontier.advance() == 9
    frontier.seen(0, S, 12, 2)
    assert frontier.advance() == 11


def test_allowed_lateness_holds_it_back_and_eager_moves_it_on() -> None:
    for lateness, eager, expected in ((5, False, 4), (0, True, 10), (0, False, 9)):
        frontier = Frontier((S,), lateness, eager)
        frontier.seen(0, S, 10, 0)
        assert frontier.advance() == expected


def test_the_minimum_over_partitions_and_streams() -> None:
    frontier = Frontier((S, T))
    frontier.seen(0, S, 10, 0)
    assert frontier.advance() == BEFORE_TIME  # of T nothing is known
    frontier.seen(1, T, 7, 0)
    assert frontier.advance() == 6
    frontier.seen(2, S, 5, 0)
    assert frontier.advance() == 6  # it never falls


def test_a_partition_without_an_element_that_can_be_read_does_not_count_yet() -> None:
    frontier = Frontier((S,))
    frontier.seen(0, S, 10, 0)
    frontier.seen(1, S, None, 5)
    assert frontier.advance() == 9
    frontier.seen(0, S, None, 7)
    assert (frontier.partitions[0].last_time, frontier.partitions[0].last_offset) == (10, 7)
    frontier.seen(1, S, 30, 6)
    frontier.seen(0, S, 40, 8)
    assert frontier.advance() == 29


def replay(*partitions: SourcePartition) -> Frontier:
    return Frontier((S, T), finite=True, partitions=dict(enumerate(partitions)))


def test_what_has_not_begun_holds_a_replay_back_by_its_first_time() -> None:
    frontier = replay(SourcePartition(S, None, -1, 3, 2), SourcePartition(T, None, -1, 100, 1))
    frontier.seen(0, S, 3, 0)
    assert frontier.advance() == 2
    frontier.seen(0, S, 8, 1)
    assert frontier.partitions[0].ended
    assert frontier.advance() == 99


def test_what_has_ended_does_not_hold_it_back_and_the_end_is_the_greatest_time() -> None:
    frontier = replay(SourcePartition(S, None, -1, 3, 1), SourcePartition(T, None, -1, None, 0))
    assert not frontier.ended
    frontier.seen(0, S, 50, 0)
    assert frontier.ended
    assert frontier.advance() == 50


def test_a_state_comes_back_as_it_was() -> None:
    frontier = replay(SourcePartition(S, None, -1, 3, 2), SourcePartition(T, None, -1, 100, 1))
    frontier.seen(0, S, 3, 0)
    frontier.advance()
    again = replay()
    again.restore(frontier.state())
    assert again == frontier


Arrivals = list[tuple[int, int]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), min_size=1, max_size=40), st.integers(0, 10))
def test_every_element_in_time_is_before_the_frontier_or_was_seen(arrivals: Arrivals, lateness: int) -> None:
    """An element of a replay that is not late by its own partition is never at or behind F (SEMANTICS §4)."""
    files = {p: [t for q, t in arrivals if q == p] for p in range(3)}
    frontier = Frontier((S, T), lateness, finite=True)
    for p, times in files.items():
        stream = S if p < 2 else T
        frontier.partitions[p] = SourcePartition(stream, None, -1, times[0] if times else None, len(times))
    greatest: dict[int, int] = {}
    count = dict.fromkeys(files, 0)
    for p, t in arrivals:
        in_time = p not in greatest or t > greatest[p] - 1 - lateness
        if in_time:
            assert t > frontier.value
        greatest[p] = max(t, greatest.get(p, t))
        frontier.seen(p, S if p < 2 else T, greatest[p], count[p])
        count[p] += 1
        before = frontier.value
        assert frontier.advance() >= before
    assert frontier.ended
    assert frontier.value == max(t for _, t in arrivals)
