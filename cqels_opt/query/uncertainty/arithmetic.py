"""Sums, differences and comparisons of independent distributions, exact where a closed form exists.

A distribution plus a number is the shifted distribution. N ± N is N, U ± U is T, N ± U and N ± NU are NU. Every other sum is
numerical: F(z) = E[F_X(z − Y)]. The expectation is the mean over :data:`MIDPOINTS` parts of equal probability of Y, each at its
midpoint; its error is at most 1/MIDPOINTS. F is stored as the quantiles of a ``Q``, interpolated linearly between levels; that
error is below the probability between two levels (at most 1.9 %). Where the density is smooth, both errors together are below
2e-4 (``tests/query/test_distributions.py``).

The probability for a distribution and a number is a value of the distribution function. P(X > Y) is P(X − Y > 0) where X − Y has
a closed form, otherwise E[P(X > y)] over the same parts of Y; ``between`` uses the parts of its first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from cqels_opt.query.columns import Column, Places
from cqels_opt.query.uncertainty.distributions import Distributions, column_of, distributions, each_family
from cqels_opt.query.uncertainty.families import NU, Family, Floats, N, Q, T, U, levels

MIDPOINTS: Final = 1024
ROWS: Final = 64  # rows per step of a numerical computation: each row takes thousands of points
STEP: Final = 4  # every STEP-th level: a numerical sum is evaluated at the sums of these quantiles of both sides
TAIL: Final = 1e-9  # the probability beyond the ends of a numerical sum
_CLOSED: Final = (N, U, T, NU, Q)


# ------------------------------------------------------------------ sums
def add(first: Column, second: Column) -> Distributions:
    """The distribution of a sum; the first argument is a distribution, the second a distribution or a number."""
    return _sum(first, second, 1.0)


def subtract(first: Column, second: Column) -> Distributions:
    """The distribution of a difference."""
    return _sum(first, second, -1.0)


def _sum(first: Column, second: Column, sign: float) -> Distributions:
    one, by = distributions(first), second.numbers()
    found: list[tuple[Family, Places, Floats]] = []
    for a in one.of:
        rows = one.rows(a)
        rows = rows[np.isfinite(by[rows])]
        if len(rows):
            shifted, p = _closed(a, one.parameters(a, rows))
            found.append((shifted, rows, _shifted(shifted, p, sign * by[rows])))
    if np.isnan(by).any():
        other = distributions(second)

        def total(rows: Places, families: Sequence[Family]) -> Floats:
            a, b = families
            pa, pb = one.parameters(a, rows), other.parameters(b, rows)
            c, pc = _added(a, pa, *(_mirrored(b, pb) if sign < 0 else (b, pb)))
            found.append((c, rows, pc))
            return by[rows]

        each_family(len(one), [one, other], total)
    return column_of(len(one), found)


def _shifted(a: Family, p: Floats, by: Floats) -> Floats:
    found = p + by[:, None]
    if a is N:
        found[:, 1] = p[:, 1]
    elif a is NU:
        found[:, 0] = p[:, 0]
    return found


def _mirrored(a: Family, p: Floats) -> tuple[Family, Floats]:
    """The distribution of −X."""
    a, p = _closed(a, p)
    if a is N:
        return N, np.column_stack([-p[:, 0], p[:, 1]])
    if a is NU:
        return NU, np.column_stack([p[:, 0], -p[:, 2], -p[:, 1]])
    return a, -p[:, ::-1]


def _closed(a: Family, p: Floats) -> tuple[Family, Floats]:
    """The distributions in a family that can be shifted; a registered family is converted to quantiles."""
    if a in _CLOSED:
        return a, p
    inner = np.broadcast_to(levels()[1:-1], (len(p), len(levels()) - 2))
    ends = a.quantile(p, np.tile([TAIL, 1 - TAIL], (len(p), 1)))
    return Q, np.column_stack([ends[:, 0], a.quantile(p, inner), ends[:, 1]])


def _in_closed_form(a: Family, pa: Floats, b: Family, pb: Floats) -> tuple[Family, Floats] | None:
    """The sum of two independent distributions, or None without a closed form."""
    if a is N and b is N:
        return N, pa + pb
    if a is U and b is U:
        low, high = pa[:, 0] + pb[:, 0], pa[:, 1] + pb[:, 1]
        rise = np.minimum(pa[:, 1] - pa[:, 0], pb[:, 1] - pb[:, 0])
        return T, np.column_stack([low, low + rise, np.maximum(high - rise, low + rise), high])
    if a is N and b is U:
        return NU, np.column_stack([pa[:, 1], pb + pa[:, :1]])
    if a is N and b is NU:
        return NU, np.column_stack([pa[:, 1] + pb[:, 0], pb[:, 1:] + pa[:, :1]])
    if b is N and a in (U, NU):
        return _in_closed_form(b, pb, a, pa)
    return None


def _added(a: Family, pa: Floats, b: Family, pb: Floats) -> tuple[Family, Floats]:
    """The sum of two independent distributions."""
    found = _in_closed_form(a, pa, b, pb)
    return found if found is not None else (Q, _in_pieces(len(pa), lambda rows: _convolved(a, pa[rows], b, pb[rows])))


def _convolved(a: Family, pa: Floats, b: Family, pb: Floats) -> Floats:
    """The quantiles of sums, computed numerically."""
    few = np.broadcast_to(levels()[1:-1:STEP], (len(pa), len(levels()[1:-1:STEP])))
    points = (a.quantile(pa, few)[:, :, None] + b.quantile(pb, few)[:, None, :]).reshape(len(pa), -1)
    ends = np.tile([TAIL, 1 - TAIL], (len(pa), 1))
    points = np.sort(np.column_stack([points, a.quantile(pa, ends) + b.quantile(pb, ends)]), axis=1)
    parts = b.quantile(pb, _middles(MIDPOINTS, len(pb)))
    at = np.stack(
        [a.cdf(p[None], (z[:, None] - y).reshape(1, -1)).reshape(len(z), -1).mean(axis=1) for p, z, y in zip(pa, points, parts)]
    )
    at = np.maximum.accumulate(at, axis=1)
    inner = levels()[1:-1]
    inside = np.stack([np.interp(inner, f, z) for f, z in zip(at, points)])
    return np.column_stack([points[:, 0], inside, points[:, -1]])


# ------------------------------------------------------------------ probabilities
def greater_than(first: Column, second: Column) -> Floats:
    """The probability that the first is greater than the second."""
    return _compared(first, second, lambda a, p, x: a.sf(p, x))


def less_than(first: Column, second: Column) -> Floats:
    """The probability that the first is less than the second."""
    return _compared(first, second, lambda a, p, x: a.cdf(p, x))


def _compared(first: Column, second: Column, side: Callable[[Family, Floats, Floats], Floats]) -> Floats:
    one, number = distributions(first), second.numbers()
    found = each_family(len(one), [one], lambda rows, of: side(of[0], one.parameters(of[0], rows), number[rows, None])[:, 0])
    if np.isnan(number).any():
        other = distributions(second)

        def compare(rows: Places, families: Sequence[Family]) -> Floats:
            a, b = families
            pa, pb = one.parameters(a, rows), other.parameters(b, rows)
            difference = _in_closed_form(a, pa, *_mirrored(b, pb)) if b in _CLOSED else None
            if difference is not None:
                c, pc = difference
                return side(c, pc, np.zeros((len(rows), 1)))[:, 0]

            def expected(some: slice) -> Floats:
                mean: Floats = side(a, pa[some], b.quantile(pb[some], _middles(MIDPOINTS, len(pb[some])))).mean(axis=1)
                return mean

            return _in_pieces(len(rows), expected)

        found = np.where(np.isnan(number), each_family(len(one), [one, other], compare), found)
    return found


def between(first: Column, low: Column, high: Column) -> Floats:
    """The probability that the first is greater than the second and less than the third."""
    one, from_number, to_number = distributions(first), low.numbers(), high.numbers()
    found = each_family(
        len(one),
        [one],
        lambda rows, of: _inside(of[0], one.parameters(of[0], rows), from_number[rows, None], to_number[rows, None])[:, 0],
    )
    for lows, highs in ((True, False), (False, True), (True, True)):  # which of the ends are distributions
        selected = (np.isnan(from_number) == lows) & (np.isnan(to_number) == highs)
        if selected.any():
            rows = np.flatnonzero(selected)
            found[rows] = _between(one.take(rows), low.take(rows), high.take(rows), lows, highs)
    return found


def _inside(a: Family, p: Floats, low: Floats, high: Floats) -> Floats:
    """P(low < X < high); uses the tail probabilities where both are small."""
    upper = a.sf(p, low) < 0.5
    found: Floats = np.maximum(np.where(upper, a.sf(p, low) - a.sf(p, high), a.cdf(p, high) - a.cdf(p, low)), 0.0)
    return found


def _between(one: Distributions, low: Column, high: Column, lows: bool, highs: bool) -> Floats:
    """P(low < X < high) where an end is a distribution: the mean over parts of X of P(X is between the ends)."""
    ends = [distributions(column) for column, wanted in ((low, lows), (high, highs)) if wanted]
    from_number, to_number = low.numbers(), high.numbers()

    def probability(rows: Places, families: Sequence[Family]) -> Floats:
        a, *others = families
        p = one.parameters(a, rows)
        pe = [end.parameters(of, rows) for end, of in zip(ends, others)]

        def expected(some: slice) -> Floats:
            selected, places = p[some], rows[some]
            begin = np.zeros((len(selected), 1)) if lows else a.cdf(selected, from_number[places, None])
            end = np.ones((len(selected), 1)) if highs else a.cdf(selected, to_number[places, None])
            share = np.maximum(end - begin, 0.0)
            x = a.quantile(selected, begin + share * _middles(MIDPOINTS, len(selected)))
            both = share
            if lows:
                both = both * others[0].cdf(pe[0][some], x)
            if highs:
                both = both * others[-1].sf(pe[-1][some], x)
            mean: Floats = np.broadcast_to(both, x.shape).mean(axis=1)
            return mean

        return _in_pieces(len(rows), expected)

    return each_family(len(one), [one, *ends], probability)


def _middles(parts: int, rows: int) -> Floats:
    """The midpoints of parts of equal probability, repeated for each row: (rows, parts)."""
    return np.broadcast_to((np.arange(parts) + 0.5) / parts, (rows, parts))


def _in_pieces(length: int, compute: Callable[[slice], Floats]) -> Floats:
    """The concatenated results of computing a few rows at a time."""
    return np.concatenate([compute(slice(at, at + ROWS)) for at in range(0, length, ROWS)])
