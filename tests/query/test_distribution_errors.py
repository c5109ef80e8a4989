"""The accuracy of probabilities stated in docs/uncertainty.md, against quadrature, closed forms and large samples."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from cqels_opt.query.uncertainty import arithmetic, register_distribution
from cqels_opt.query.uncertainty.families import Q, levels

from .test_distributions import any_kind, column, drawn, normal, numbers, simple, spreads, verified

DIGITS = 1e-14
"""About fifteen digits of a probability."""

NARROW = 1e-10
"""A normal plus a uniform distribution of a thousandth of its spread: the closed form subtracts nearly equal numbers."""

PARTS = 1 / arithmetic.MIDPOINTS
SMOOTH = 5e-5
SUM = 2e-4


@pytest.fixture(autouse=True)
def registered() -> None:
    register_distribution("Exp", 1, lambda rate: stats.expon(scale=1 / rate))
    register_distribution("Gamma", 1, lambda shape: stats.gamma(shape))


# ------------------------------------------------------------------ closed forms
@given(simple, numbers, numbers)
def test_probabilities_of_numbers_have_fifteen_digits(one: str, low: float, high: float) -> None:
    name, p = one[0], [float(x) for x in one[2:-1].split(",")]
    exact = stats.norm(p[0], sqrt(p[1])) if name == "N" else stats.uniform(p[0], p[1] - p[0])
    assert arithmetic.less_than(column(one), column(low))[0] == pytest.approx(exact.cdf(low), abs=DIGITS)
    assert arithmetic.greater_than(column(one), column(low))[0] == pytest.approx(exact.sf(low), abs=DIGITS)
    inside = max(exact.cdf(high) - exact.cdf(low), 0.0)
    assert arithmetic.between(column(one), column(low), column(high))[0] == pytest.approx(inside, abs=DIGITS)


@given(normal, normal)
def test_two_normal_ones_have_fifteen_digits(one: str, other: str) -> None:
    (m, v), (n, w) = ([float(x) for x in text[2:-1].split(",")] for text in (one, other))
    exact = stats.norm.sf(0, m - n, sqrt(v + w))
    assert arithmetic.greater_than(column(one), column(other))[0] == pytest.approx(exact, abs=DIGITS)


@given(spreads, numbers, st.floats(1e-6, 50), numbers)
@settings(max_examples=60, deadline=None)
def test_a_normal_and_a_uniform_one(variance: float, a: float, width: float, x: float) -> None:
    sigma, b = sqrt(variance), a + width

    def weight(y: float) -> float:
        return float(stats.norm.cdf((x - y) / sigma)) / (b - a)

    kinks = [p for p in (x - 6 * sigma, x - sigma, x, x + sigma, x + 6 * sigma) if a < p < b]
    exact = integrate.quad(weight, a, b, points=kinks, epsabs=1e-14, epsrel=1e-13, limit=300)[0]
    assert arithmetic.less_than(column(f"NU({variance!r}, {a!r}, {b!r})"), column(x))[0] == pytest.approx(exact, abs=NARROW)


# ------------------------------------------------------------------ expectations
@pytest.mark.long
@given(any_kind, any_kind)
@settings(max_examples=15, deadline=None)
def test_a_comparison_is_never_off_by_more_than_a_part(one: str, other: str) -> None:
    for name, ours in (("greaterThan", arithmetic.greater_than), ("lessThan", arithmetic.less_than)):
        assert abs(ours(column(one), column(other))[0] - verified(name, one, other)) <= PARTS


@pytest.mark.long
@given(any_kind, any_kind, any_kind)
@settings(max_examples=25, deadline=None)
def test_between_distributions_is_never_off_by_more_than_a_part(one: str, low: str, high: str) -> None:
    assert abs(arithmetic.between(column(one), column(low), column(high))[0] - verified("between", one, low, high)) <= PARTS


# ------------------------------------------------------------------ sums
Exact = Callable[[np.ndarray], np.ndarray]
SUMS: list[tuple[str, str, Exact]] = [
    ("U(0, 1)", "T(0, 1, 1, 2)", lambda x: stats.irwinhall(3).cdf(x)),
    ("T(0, 1, 1, 2)", "T(0, 1, 1, 2)", lambda x: stats.irwinhall(4).cdf(x)),
    ("Exp(1)", "Exp(1)", lambda x: stats.gamma(2).cdf(x)),
    ("Gamma(2.5)", "Gamma(4)", lambda x: stats.gamma(6.5).cdf(x)),
    ("N(0, 1)", "Exp(2)", lambda x: stats.exponnorm(0.5).cdf(x)),
    ("N(3, 0.25)", "Exp(1)", lambda x: stats.exponnorm(2, 3, 0.5).cdf(x)),
]


@pytest.mark.parametrize(("one", "other", "exact"), SUMS)
def test_a_numerical_sum_of_smooth_densities(one: str, other: str, exact: Exact) -> None:
    x = np.linspace(-4, 25, 6_001)[None]
    for first, second in ((one, other), (other, one)):
        total = arithmetic.add(column(first), column(second))
        assert total.of == (Q,)
        assert np.abs(Q.cdf(total.p, x) - exact(x)).max() < SUM


@pytest.mark.long
def test_each_numerical_operation_adds_its_own_error() -> None:
    """Eight uniform ones: the sum of two has a closed form, then six uniform ones are added."""
    total = arithmetic.add(column("U(0, 1)"), column("U(0, 1)"))
    x = np.linspace(0, 8, 4_001)[None]
    for terms in range(3, 9):
        total = arithmetic.add(total, column("U(0, 1)"))
        assert np.abs(Q.cdf(total.p, x) - stats.irwinhall(terms).cdf(x)).max() < SUM * (terms - 2)


@pytest.mark.long
@given(spreads, st.floats(-3, 6), st.sampled_from([("Exp(0.7)", stats.expon(scale=1 / 0.7)), ("Gamma(2.5)", stats.gamma(2.5))]))
@settings(max_examples=40, deadline=None)
def test_comparisons_of_smooth_densities(spread: float, mean: float, other: tuple[str, stats.rv_continuous]) -> None:
    name, density = other
    variance = 0.1 + spread
    exact = integrate.quad(lambda y: density.pdf(y) * stats.norm.sf(y, mean, sqrt(variance)), 0, np.inf, epsabs=1e-12, limit=400)[
        0
    ]
    assert arithmetic.greater_than(column(f"N({mean}, {variance})"), column(name))[0] == pytest.approx(exact, abs=SMOOTH)


@pytest.mark.long
@given(any_kind, any_kind, st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_any_sum_is_that_of_large_samples(one: str, other: str, seed: int) -> None:
    """Within the bound of this sample size (Dvoretzky–Kiefer–Wolfowitz, failure probability 10⁻⁹) plus the bound of the docs."""
    random = np.random.default_rng(seed)
    drawn_sum = np.sort(drawn(one, random) + drawn(other, random))
    total = arithmetic.add(column(one), column(other))
    (of,) = total.of
    at = of.cdf(total.p, drawn_sum[None])[0]
    sampled = (np.arange(len(at)) + 0.5) / len(at)
    told = sqrt(np.log(2e9) / 2 / len(at))
    assert np.abs(at - sampled).max() <= told + (SUM if of is not Q else np.diff(levels()).max() + PARTS)


# ------------------------------------------------------------------ properties of sums
@pytest.mark.long
@given(any_kind, any_kind)
@settings(max_examples=40, deadline=None)
def test_sums_do_not_hang_on_the_order(one: str, other: str) -> None:
    forth, back = arithmetic.add(column(one), column(other)), arithmetic.add(column(other), column(one))
    assert forth.of == back.of
    (of,) = forth.of
    u = np.linspace(0.02, 0.98, 49)[None]
    assert of.cdf(back.p, of.quantile(forth.p, u)) == pytest.approx(u, abs=2 * SUM if of is Q else 2e-3)


@pytest.mark.long
@given(any_kind, any_kind)
@settings(max_examples=20, deadline=None)
def test_a_difference_is_the_other_one_mirrored(one: str, other: str) -> None:
    forth = arithmetic.greater_than(arithmetic.subtract(column(one), column(other)), column(0.0))[0]
    back = arithmetic.less_than(arithmetic.subtract(column(other), column(one)), column(0.0))[0]
    assert forth == pytest.approx(back, abs=2 * SUM)


@pytest.mark.long
@given(any_kind, any_kind, st.floats(0, 10), st.floats(-40, 40))
@settings(max_examples=25, deadline=None)
def test_what_is_added_makes_greater_likelier(one: str, other: str, more: float, bound: float) -> None:
    low = arithmetic.add(column(one), column(other))
    high = arithmetic.add(low, column(more))
    assert arithmetic.greater_than(high, column(bound))[0] >= arithmetic.greater_than(low, column(bound))[0] - NARROW
    assert arithmetic.less_than(high, column(bound))[0] <= arithmetic.less_than(low, column(bound))[0] + NARROW
