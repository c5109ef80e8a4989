"""The lines of many queries at once are those that each has alone, in order of time and then of queries."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.operators.algebra.triple import TRIPLE
from cqels_opt.operators.graph_output import lines
from cqels_opt.operators.joint_lines import QueryAnswers, fits, joint_lines
from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.stream_output import PIECE, Answers
from cqels_opt.operators.term_table import TermTable
from cqels_opt.rdf.ids import PUBLIC, integer_ids

NAMES = ["<http://ex.org/a>", '"Zoë \\\\ \\"x\\""', '"b"@en', "_:b1", "<http://ex.org/ü>"]


def alone(one: QueryAnswers) -> list[tuple[int, bytes]]:
    found = []
    for data, time, length in lines(one.found, one.terms, one.query):
        ends = np.cumsum(length)
        content = data.to_pybytes()
        found += [(int(t), content[e - n : e]) for t, n, e in zip(time, length, ends)]
    return found


def some(rng: random.Random, number: int, terms: TermTable, ids: list[int]) -> QueryAnswers:
    """Answers in order of time, of some variables; some are unbound, and some occur more than once."""
    rows = rng.choice([0, 1, 5, 40])
    variables = rng.sample(["x", "y", "a name", "é"], rng.randint(0, 4))
    columns = {v: np.array([rng.choice(ids) for _ in range(rows)], np.int64) for v in variables}
    n = np.array([rng.choice([1, 1, 1, 3]) for _ in range(rows)], np.int64)
    time = np.sort(np.array([rng.randrange(6) for _ in range(rows)], np.int64))
    query: Any = f"q{number}"
    if rng.random() < 0.3:
        query = pa.array([rng.choice([f'i{number} "a"', f"i{number} b"]) for _ in range(rows)], pa.string())
    return QueryAnswers(Answers(time, n, columns, rng.choice("+-=")), terms, query)


@pytest.mark.parametrize("seed", range(40))
def test_lines_are_those_of_each_query_alone(seed: int) -> None:
    rng, shared = (
        random.Random(seed),
        TermTable(PUBLIC, None, constants=dict(zip(TermTable(PUBLIC, None).ids(NAMES).tolist(), NAMES))),
    )
    answers = []
    for number in range(rng.randint(1, 6)):
        terms, ids = shared, [*TermTable(PUBLIC, None).ids(NAMES).tolist(), *integer_ids(np.arange(3)).tolist()]
        if rng.random() < 0.3:  # a query whose expressions make terms
            terms = TermTable(PUBLIC, None)
            ids = terms.ids([*NAMES, f'"made by {number}"']).tolist()
        if rng.random() < 0.5:
            ids.append(0)
        answers.append(some(rng, number, terms, ids))
    expected = [(time, number, line) for number, one in enumerate(answers) for time, line in alone(one)]
    expected.sort(key=lambda found: found[:2])
    data, time, length = joint_lines(answers)
    assert data.to_pybytes() == b"".join(line for *_, line in expected)
    assert time.tolist() == [at for at, *_ in expected]
    assert length.tolist() == [len(line) for *_, line in expected]


@pytest.mark.parametrize("columns", [{TRUTH: 1}, dict.fromkeys(TRIPLE, 1)])
def test_graphs_truths_and_large_answers_have_files_of_their_own(columns: dict[str, int]) -> None:
    one = np.ones(1, np.int64)
    assert not fits(Answers(one, one, dict.fromkeys(columns, one), "+"))
    assert fits(Answers(one, one * PIECE, {"x": one}, "+")) and not fits(Answers(one, one * (PIECE + 1), {"x": one}, "+"))
