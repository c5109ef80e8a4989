"""Distributions: closed forms against scipy and large samples, numerical sums within their stated error, and errors."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from cqels_opt.errors import InputError
from cqels_opt.query.columns import Items
from cqels_opt.query.uncertainty import arithmetic, register_distribution
from cqels_opt.query.uncertainty.distributions import DISTRIBUTION, Distributions, distributions
from cqels_opt.query.uncertainty.families import FAMILIES, family, levels
from cqels_opt.rdf.terms import literal
from cqels_opt.verify.uncertainty import functions

SAMPLES = 200_000
NEAR = 5 / SAMPLES**0.5  # of a probability from this number of samples
OWN = functions()
RSPU = "http://w3id.org/rsp/rspu#"
XSD = "http://www.w3.org/2001/XMLSchema#"


def d(text: str) -> str:
    return literal(text, DISTRIBUTION)


def column(*values: str | float | None) -> Items:
    """Distributions by their texts, and numbers."""
    return Items([d(value) if isinstance(value, str) and not value.startswith('"') else value for value in values])


def drawn(text: str, random: np.random.Generator) -> np.ndarray:
    """A large sample of a distribution, generated without its distribution function."""
    name, _, rest = text.rstrip(")").partition("(")
    p = [float(part) for part in rest.split(",")]
    match name, p:
        case "N", [mean, variance]:
            return random.normal(mean, variance**0.5, SAMPLES)
        case "U", [a, b]:
            return random.uniform(a, b, SAMPLES)
        case "T", [a, b, c, d_]:  # b - a = d - c: a sum of two uniform ones
            assert b - a == pytest.approx(d_ - c)
            return random.uniform(a, c, SAMPLES) + random.uniform(0, b - a, SAMPLES)
        case "NU", [variance, a, b]:
            return random.normal(0, variance**0.5, SAMPLES) + random.uniform(a, b, SAMPLES)
        case "Exp", [rate]:
            return random.exponential(1 / rate, SAMPLES)
    raise AssertionError(text)


EXAMPLES = ("N(1, 4)", "N(0.2, 0.01)", "U(0, 3)", "T(0, 1, 2, 3)", "NU(0.5, -1, 1)", "Exp(0.7)")


@pytest.fixture(autouse=True)
def exponential() -> None:
    register_distribution("Exp", 1, lambda rate: stats.expon(scale=1 / rate))


# ------------------------------------------------------------------ against samples
@pytest.mark.long
@pytest.mark.parametrize(("one", "other"), list(itertools.product(EXAMPLES, EXAMPLES)))
def test_probabilities_are_those_of_large_samples(one: str, other: str) -> None:
    random = np.random.default_rng([len(one), len(other), EXAMPLES.index(one)])
    x, y, z = drawn(one, random), drawn(other, random), drawn("N(1, 1)", random)
    a, b, c = column(one), column(other), column("N(1, 1)")
    assert arithmetic.greater_than(a, b)[0] == pytest.approx((x > y).mean(), abs=NEAR)
    assert arithmetic.less_than(a, b)[0] == pytest.approx((x < y).mean(), abs=NEAR)
    assert arithmetic.greater_than(arithmetic.add(a, b), column(1.3))[0] == pytest.approx((x + y > 1.3).mean(), abs=NEAR)
    assert arithmetic.less_than(arithmetic.subtract(a, b), column(0.3))[0] == pytest.approx((x - y < 0.3).mean(), abs=NEAR)
    assert arithmetic.between(a, b, column(2.0))[0] == pytest.approx(((x > y) & (x < 2)).mean(), abs=NEAR)
    assert arithmetic.between(a, column(0.5), b)[0] == pytest.approx(((x > 0.5) & (x < y)).mean(), abs=NEAR)
    assert arithmetic.between(a, b, c)[0] == pytest.approx(((x > y) & (x < z)).mean(), abs=NEAR)


# ------------------------------------------------------------------ against closed forms
numbers = st.floats(-50, 50).map(lambda x: round(x, 3))
spreads = st.floats(0.01, 30).map(lambda x: round(x, 3))
normal = st.builds(lambda m, v: f"N({m}, {v})", numbers, spreads)
uniform = st.builds(lambda a, w: f"U({a}, {a + w})", numbers, spreads)
simple = st.one_of(normal, uniform)
any_kind = st.one_of(
    simple,
    st.builds(lambda a, w, m: f"T({a}, {a + w}, {a + w + m}, {a + w + m + w})", numbers, spreads, spreads),
    st.builds(lambda v, a, w: f"NU({v}, {a}, {a + w})", spreads, numbers, spreads),
)


def verified(name: str, *arguments: str | float) -> float:
    """The result of the independent evaluation."""
    terms = [d(a) if isinstance(a, str) else literal(repr(a), f"{XSD}double") for a in arguments]
    found = OWN[RSPU + name](*terms)
    assert found is not None
    return float(found.split('"')[1])


@pytest.mark.long
@given(simple, st.one_of(simple, numbers))
@settings(max_examples=60, deadline=None)
def test_comparisons_agree_with_quadrature(one: str, other: str | float) -> None:
    for name, ours in (("greaterThan", arithmetic.greater_than), ("lessThan", arithmetic.less_than)):
        assert ours(column(one), column(other))[0] == pytest.approx(verified(name, one, other), abs=1e-9)


@pytest.mark.long
@given(any_kind, numbers, numbers)
@settings(deadline=None)
def test_between_numbers_agrees_with_scipy(one: str, low: float, high: float) -> None:
    assert arithmetic.between(column(one), column(low), column(high))[0] == pytest.approx(
        verified("between", one, low, high), abs=1e-9
    )


@given(simple, simple)
def test_sums_in_closed_form_are_those_of_the_independent_evaluation(one: str, other: str) -> None:
    for name, ours in (("add", arithmetic.add), ("subtract", arithmetic.subtract)):
        assert ours(column(one), column(other)).items()[0] == OWN[RSPU + name](d(one), d(other))


def test_the_tail_of_a_narrow_sum_keeps_its_digits() -> None:
    """A uniform distribution that is narrow relative to the normal one: the closed form would cancel."""
    for width in (1e-1, 2e-3, 0.9e-3, 1e-5, 1e-9):
        (found,) = arithmetic.less_than(column(f"NU(1, {0.5 - width / 2!r}, {0.5 + width / 2!r})"), column(0.0))
        assert found == pytest.approx(stats.norm.cdf(-0.5), abs=width**2 / 10 + 1e-13)


# ------------------------------------------------------------------ numerical sums
@pytest.mark.parametrize(
    ("one", "other", "exact"),
    [
        ("U(0, 1)", "T(0, 1, 1, 2)", lambda x: stats.irwinhall(3).cdf(x)),
        ("Exp(1)", "Exp(1)", lambda x: stats.gamma(2).cdf(x)),
        ("N(0, 1)", "Exp(2)", lambda x: stats.exponnorm(0.5).cdf(x)),
    ],
)
def test_a_numerical_sum_is_within_its_stated_error(one: str, other: str, exact: Callable[[np.ndarray], np.ndarray]) -> None:
    total = arithmetic.add(column(one), column(other))
    found = family("Q")
    assert found is not None and total.of == (found,)
    x = np.linspace(-3, 12, 3_001)[None]
    assert np.abs(found.cdf(total.p, x) - exact(x)).max() < 2e-4


def test_no_cell_of_a_numerical_sum_is_wider_than_is_said() -> None:
    assert np.diff(levels()).max() < 0.019
    assert (np.diff(levels()) > 0).all()


# ------------------------------------------------------------------ properties
kinds = st.one_of(any_kind, st.just("Exp(0.4)"))


@pytest.mark.long
@given(kinds, st.one_of(kinds, numbers))
@settings(max_examples=60, deadline=None)
def test_less_and_greater_are_complements(one: str, other: str | float) -> None:
    less, greater = arithmetic.less_than(column(one), column(other))[0], arithmetic.greater_than(column(one), column(other))[0]
    assert 0 <= less <= 1
    assert less + greater == pytest.approx(1, abs=1e-9)


@given(kinds, kinds)
@settings(max_examples=40, deadline=None)
def test_what_is_greater_is_less_the_other_way_round(one: str, other: str) -> None:
    assert arithmetic.greater_than(column(one), column(other))[0] == pytest.approx(
        arithmetic.less_than(column(other), column(one))[0], abs=2e-3
    )


@given(kinds, numbers, numbers)
@settings(max_examples=60, deadline=None)
def test_probabilities_fall_as_the_threshold_rises(one: str, low: float, high: float) -> None:
    assume(low < high)
    first, second = arithmetic.greater_than(column(one, one), column(low, high))
    assert first >= second
    inside = arithmetic.between(column(one), column(low), column(high))[0]
    assert inside == pytest.approx(first - second, abs=1e-9)
    assert arithmetic.between(column(one), column(high), column(low))[0] == 0


@given(any_kind, numbers)
@settings(deadline=None)
def test_shifting_moves_the_threshold(one: str, by: float) -> None:
    shifted = arithmetic.add(column(one), column(by))
    assert arithmetic.greater_than(shifted, column(1.0))[0] == pytest.approx(
        arithmetic.greater_than(column(one), column(1.0 - by))[0], abs=1e-9
    )
    back = arithmetic.subtract(shifted, column(by))
    assert arithmetic.less_than(back, column(2.0))[0] == pytest.approx(
        arithmetic.less_than(column(one), column(2.0))[0], abs=1e-9
    )


@given(st.sampled_from(list(FAMILIES)), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_quantiles_invert_the_distribution_function(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    one = FAMILIES[name]
    p = np.sort(random.uniform(0.1, 9, (1, one.parameters)))
    u = np.linspace(0.05, 0.95, 10)[None]
    assert one.cdf(p, one.quantile(p, u)) == pytest.approx(u, abs=2e-3)
    assert one.sf(p, one.quantile(p, u)) == pytest.approx(1 - u, abs=2e-3)


# ------------------------------------------------------------------ literals
@pytest.mark.parametrize(
    "text",
    (
        *("N(1, -2)", "N(1, 0)", "U(3, 1)", "U(1, 1)", "N(1)", "N(1, 2, 3)", "N(1, x)", "N(1, NaN)", "N(1, INF)", "N 1, 2"),
        *("X(1)", "", "N(,)", "T(0, 2, 1, 3)", "NU(-1, 0, 1)", "Q(1, 2)", "n(1, 2)", "N(1_0, 2)", "Exp(-1)"),
    ),
)
def test_what_is_no_distribution_is_an_error(text: str) -> None:
    assert distributions(column(text)).number.tolist() == [-1]
    assert np.isnan(arithmetic.greater_than(column(text), column(0.0))[0])
    assert arithmetic.add(column(text), column(1.0)).items() == [None]


@pytest.mark.parametrize("other", [literal("7"), "<http://ex.org/a>", literal("x", f"{XSD}integer"), None, d("N(1, -2)")])
def test_other_arguments_are_errors(other: str | None) -> None:
    good = column("N(0, 1)")
    assert np.isnan(arithmetic.less_than(good, Items([other]))[0])
    assert np.isnan(arithmetic.between(good, column(0.0), Items([other]))[0])
    assert np.isnan(arithmetic.between(good, Items([other]), column(0.0))[0])
    assert arithmetic.subtract(good, Items([other])).items() == [None]


def test_a_number_cannot_come_first() -> None:
    """Definition 14: everything but a distribution as the first argument is an error."""
    assert np.isnan(arithmetic.greater_than(column(1.0), column("N(0, 1)"))[0])
    assert arithmetic.add(column(1.0), column("N(0, 1)")).items() == [None]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", EXAMPLES)
def test_infinite_thresholds_are_fine_and_infinite_shifts_are_not(text: str) -> None:
    for bound, below in ((float("inf"), 1), (1e300, 1), (-1e300, 0), (float("-inf"), 0)):
        assert arithmetic.less_than(column(text), column(bound))[0] == below
        assert arithmetic.greater_than(column(text), column(bound))[0] == 1 - below
    assert arithmetic.add(column("N(0, 1)"), column(float("inf"))).items() == [None]


def test_white_space_and_exponents() -> None:
    found = arithmetic.add(column(" N ( 1e0 ,+.5 ) "), column(0.0)).items()
    assert found == [d("N(1.0, 0.5)")]


def test_columns_of_several_families_keep_their_rows() -> None:
    texts = ["N(1, 4)", "U(0, 1)", "bad", "T(0, 1, 2, 3)", "N(2, 9)", "NU(1, 0, 1)"]
    whole = distributions(column(*texts))
    each = [arithmetic.less_than(column(text), column(0.7))[0] for text in texts]
    assert arithmetic.less_than(whole, Items([0.7] * 6)) == pytest.approx(each, nan_ok=True)
    halves = distributions(column(*texts[:3])).followed_by([distributions(column(*texts[3:]))])
    assert halves.items() == whole.items()
    assert whole.take(np.array([4, 2, 0])).items() == [d("N(2.0, 9.0)"), None, d("N(1.0, 4.0)")]
    assert isinstance(halves, Distributions)


# ------------------------------------------------------------------ user-defined families
def test_a_registered_family_reaches_other_processes() -> None:
    packed = pickle.dumps(FAMILIES["N"])
    assert pickle.loads(packed) is FAMILIES["N"]
    register_distribution("Gumbel", 2, stats.gumbel_r)
    packed = pickle.dumps(FAMILIES.pop("Gumbel"))
    assert family("Gumbel") is None
    pickle.loads(packed)
    assert arithmetic.less_than(column("Gumbel(1, 2)"), column(0.5))[0] == pytest.approx(stats.gumbel_r(1, 2).cdf(0.5))
    del FAMILIES["Gumbel"]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [("N", 2, "there is a family 'N'"), ("a b", 1, "no name"), ("Y", 0, "at least 1 parameter")],
)
def test_what_cannot_be_registered(name: str, parameters: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        register_distribution(name, parameters, stats.norm)
    with pytest.raises(InputError, match=r"^None is no name of a family"):
        register_distribution(None, 1, stats.norm)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^Y: a function that returns a distribution is expected, not int$"):
        register_distribution("Y", 1, 3)  # type: ignore[arg-type]
