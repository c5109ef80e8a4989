"""The sentences and figures of EXPLAIN."""

from __future__ import annotations

import doctest

import pytest

from cqels_opt.plans import KnownStatistics, Optimizer, deltas, figures, text
from cqels_opt.plans.figures import in_words
from cqels_opt.plans.measured import with_measures, with_runner_up

from .test_optimizer import figure_3, figure_3_graph


def test_figures() -> None:
    assert doctest.testmod(figures).failed == 0


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        ("cardinality(w)", "rows of w"),
        ("distinct(w, ?x)", "distinct values of ?x in w"),
        ("selectivity(f(?a, ?b) > 1)", "share of rows that pass f(?a, ?b) > 1"),
        ("rows(w, near[?x] >= 3)", "rows of w with near[?x] >= 3"),
        ("rows(w, near, name)", "rows of w, near and name joined"),
    ],
)
def test_statistics_in_words(statistic: str, words: str) -> None:
    assert in_words(statistic) == words


def test_the_runner_up_is_priced_with_the_rows_that_were_observed() -> None:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], feedback=True)
    choices = optimizer.choose({"lsnow": figure_3(400.0)})
    before = choices["lsnow"].runner_up
    assert before is not None
    observed = [1.0, 4_000.0, 3.0]
    optimizer.observe("lsnow", observed)
    (delta,) = deltas(choices, {"lsnow": observed})
    with_measures([delta], {"lsnow": iter([{"ms": 1.5, "bytes": 100, "tasks": 2, "skew": 1.25}] * 3)})
    with_runner_up(delta, choices["lsnow"], optimizer.observed_price_of)
    again = delta["runner_up"]["observed"]
    assert again["rows"] == pytest.approx(sum(observed))
    assert again["chosen"] > choices["lsnow"].cost  # 4,000 rows instead of the estimate
    lines = text([delta], optimizer.model).splitlines()
    assert "its operators took 4.500 ms" in lines[3]
    assert any("with the rows of this batch it has " in line for line in lines)
    assert any("those of this plan give 4,004" in line for line in lines)


def test_the_runner_up_is_priced_with_the_rows_of_the_last_batch_alone() -> None:
    """Feedback averages batches, and "with the rows of this batch" does not."""
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], feedback=True)
    for observed in ([1.0, 40.0, 3.0], [1.0, 160.0, 3.0], [1.0, 20.0, 2.0]):
        choices = optimizer.choose({"lsnow": figure_3(400.0)})
        optimizer.observe("lsnow", observed)
        (delta,) = deltas(choices, {"lsnow": observed})
        with_runner_up(delta, choices["lsnow"], optimizer.observed_price_of)
        again, found = delta["runner_up"]["observed"], optimizer.hindsight()["lsnow"]
        assert again["rows"] == pytest.approx(sum(observed))
        assert again["chosen"] == pytest.approx(found.cost)
        assert found.least <= again["cost"] * (1 + 1e-9)


def test_without_observed_rows_the_runner_up_has_its_estimate_only() -> None:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], feedback=True)
    choices = optimizer.choose({"lsnow": KnownStatistics()})
    (delta,) = deltas(choices)
    with_runner_up(delta, choices["lsnow"], optimizer.observed_price_of)
    assert "observed" not in delta["runner_up"]
