"""A second implementation of RSP-QL*'s uncertainty functions: per value, with scipy's distributions and quadrature.

It shares nothing with the engine. Functions map canonical term texts to a canonical term text; None is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from math import inf, sqrt
from typing import Any, TypeAlias

import numpy as np
import scipy  # submodules are imported on first use, which is rare

from cqels_opt.errors import RunError
from cqels_opt.query.extensions import called_once, registered_functions
from cqels_opt.verify.literals import literal, literal_parts

RSPU = "http://w3id.org/rsp/rspu#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_WHOLE = re.compile(r"\s*(\w+)\s*\((.*)\)\s*")
_NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_WHOLE_NUMBER = r"[+-]?\d+"
_FORMS = {"decimal": r"[+-]?(\d+(\.\d*)?|\.\d+)", **dict.fromkeys(("double", "float"), rf"{_NUMBER}|[+-]?INF")}
_INTEGERS = frozenset(
    (
        *("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
        *("negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    )
)

Function: TypeAlias = Callable[..., str | None]
Distribution: TypeAlias = tuple[str, tuple[float, ...]]


def functions() -> Mapping[str, Function]:
    """The functions by IRI: the paper's, and those that a user registered, whose definition is the user's own."""
    own: dict[str, Function] = {f"{RSPU}{name}": partial(_called, name) for name in ("greaterThan", "lessThan", "between")}
    own |= {f"{RSPU}add": partial(_sum, 1.0), f"{RSPU}subtract": partial(_sum, -1.0)}
    return own | {given.name[1:-1]: partial(called_once, given) for given in registered_functions()}


# ------------------------------------------------------------------ terms
@lru_cache(4096)
def _read(term: str) -> Distribution | float | None:
    """A distribution or a number; None for any other term."""
    if not term.startswith('"'):
        return None
    text, datatype, _ = literal_parts(term)
    if datatype == f"{RSPU}distribution":
        whole = _WHOLE.fullmatch(text)
        parts = [part.strip() for part in whole[2].split(",")] if whole else []
        if whole is None or not all(re.fullmatch(_NUMBER, part) for part in parts):
            return None
        found = whole[1], tuple(map(float, parts))
        return found if _is_one(*found) else None
    kind = (datatype or "").removeprefix(_XSD)
    if not re.fullmatch(_FORMS.get(kind, _WHOLE_NUMBER if kind in _INTEGERS else "(?!)"), text):
        return None
    return float(np.float32(text.replace("INF", "inf"))) if kind == "float" else float(text.replace("INF", "inf"))


def _is_one(name: str, p: Sequence[float]) -> bool:
    match name, tuple(p):
        case "N", (_, variance):
            return variance > 0
        case "U", (a, b):
            return a < b
        case "T", (a, b, c, d):
            return a < b <= c < d
        case "NU", (variance, a, b):
            return variance > 0 and a < b
    return False


def _written(name: str, *p: float) -> str:
    return literal(f"{name}({', '.join(map(repr, p))})", f"{RSPU}distribution", None)


# ------------------------------------------------------------------ sums
def _sum(sign: float, first: str, second: str) -> str | None:
    one, other = _read(first), _read(second)
    if not isinstance(one, tuple) or other is None:
        return None
    if isinstance(other, float):
        return _shifted(one, sign * other) if abs(other) < inf else None
    return _added(one, other if sign > 0 else _mirrored(other))


def _shifted(one: Distribution, by: float) -> str:
    match one:
        case "N", (mean, variance):
            return _written("N", mean + by, variance)
        case "NU", (variance, a, b):
            return _written("NU", variance, a + by, b + by)
        case name, p:
            return _written(name, *(x + by for x in p))


def _mirrored(one: Distribution) -> Distribution:
    match one:
        case "N", (mean, variance):
            return "N", (-mean, variance)
        case "NU", (variance, a, b):
            return "NU", (variance, -b, -a)
        case name, p:
            return name, tuple(-x for x in reversed(p))


def _added(one: Distribution, other: Distribution) -> str:
    match one, other:
        case ("N", (m, v)), ("N", (n, w)):
            return _written("N", m + n, v + w)
        case ("U", (a, b)), ("U", (c, d)):
            narrow = min(b - a, d - c)
            return _written("T", a + c, a + c + narrow, max(b + d - narrow, a + c + narrow), b + d)
        case (("N", (m, v)), ("U", (a, b))) | (("U", (a, b)), ("N", (m, v))):
            return _written("NU", v, a + m, b + m)
        case (("N", (m, v)), ("NU", (w, a, b))) | (("NU", (w, a, b)), ("N", (m, v))):
            return _written("NU", v + w, a + m, b + m)
    raise RunError(f"verify cannot add {one[0]} and {other[0]}: it knows the sums that have a closed form")


# ------------------------------------------------------------------ probabilities
@lru_cache(1 << 16)
def _called(name: str, *terms: str) -> str | None:
    one, *others = map(_read, terms)
    if not isinstance(one, tuple) or None in others:
        return None
    low = others[0] if name in ("greaterThan", "between") else -inf
    high = others[-1] if name in ("lessThan", "between") else inf
    return literal(repr(_between(one, low, high)), f"{_XSD}double", None)


def _between(one: Distribution, low: Any, high: Any) -> float:
    """P(low < X < high): the integral over the density of X of the probability that X lies between the ends."""
    if isinstance(low, float) and isinstance(high, float):
        x = _scipy(one)
        if low >= high:
            return 0.0
        return float(x.sf(low) - x.sf(high) if x.cdf(low) > 0.5 else x.cdf(high) - x.cdf(low))
    if one[0] == "N" and isinstance(low, tuple) and low[0] == "N" and high == inf:
        return float(scipy.stats.norm.sf(0.0, one[1][0] - low[1][0], sqrt(one[1][1] + low[1][1])))
    if one[0] == "N" and isinstance(high, tuple) and high[0] == "N" and low == -inf:
        return float(scipy.stats.norm.cdf(0.0, one[1][0] - high[1][0], sqrt(one[1][1] + high[1][1])))
    x, begin, end = _scipy(one), *_reach(one)
    points = sorted({p for d in (one, low, high) if isinstance(d, tuple) for p in _kinks(d) if begin < p < end})
    sides = [(_scipy(d).cdf if below else _scipy(d).sf) for d, below in ((low, True), (high, False)) if isinstance(d, tuple)]
    begin, end = max(begin, low) if isinstance(low, float) else begin, min(end, high) if isinstance(high, float) else end
    if begin >= end:
        return 0.0

    def weight(at: float) -> float:
        found = float(x.pdf(at))
        for side in sides:
            found *= float(side(at))
        return found

    edges = [begin, *(p for p in points if begin < p < end), end]
    return float(sum(scipy.integrate.quad(weight, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a, b in pairwise(edges)))


def _scipy(one: Distribution) -> Any:
    match one:
        case "N", (mean, variance):
            return scipy.stats.norm(mean, sqrt(variance))
        case "U", (a, b):
            return scipy.stats.uniform(a, b - a)
        case "T", (a, b, c, d):
            return scipy.stats.trapezoid((b - a) / (d - a), (c - a) / (d - a), a, d - a)
    return _NormalAndUniform(*one[1])


class _NormalAndUniform:
    """The sum of a uniform and a normal distribution: its probabilities are means over the uniform one."""

    def __init__(self, variance: float, a: float, b: float) -> None:
        self.spread, self.a, self.b = sqrt(variance), a, b

    def _mean(self, of: Callable[[Any], Any], x: float) -> float:
        at, weights = np.polynomial.legendre.leggauss(40)
        step = min(self.b - self.a, self.spread)
        edges = np.linspace(self.a, self.b, max(2, min(2000, int(2 * (self.b - self.a) / step) + 2)))
        parts = [(lo + hi) / 2 + (hi - lo) / 2 * at for lo, hi in pairwise(edges)]
        widths = [(hi - lo) / 2 for lo, hi in pairwise(edges)]
        total = sum(w * float(np.dot(weights, of((x - y) / self.spread))) for w, y in zip(widths, parts))
        return float(total / (self.b - self.a))

    def cdf(self, x: float) -> float:
        """The probability of at most x."""
        return self._mean(scipy.stats.norm.cdf, x)

    def sf(self, x: float) -> float:
        """The probability of more than x."""
        return self._mean(scipy.stats.norm.sf, x)

    def pdf(self, x: float) -> float:
        """The density at x."""
        return self._mean(scipy.stats.norm.pdf, x) / self.spread


def _reach(one: Distribution) -> tuple[float, float]:
    """The range that has all but a negligible part of the mass."""
    match one:
        case "N", (mean, variance):
            return mean - 12 * sqrt(variance), mean + 12 * sqrt(variance)
        case "NU", (variance, a, b):
            return a - 12 * sqrt(variance), b + 12 * sqrt(variance)
    return one[1][0], one[1][-1]


def _kinks(one: Distribution) -> list[float]:
    """The points where the density changes its form, or around which most of its mass lies."""
    match one:
        case "N", (mean, variance):
            return [mean + k * sqrt(variance) for k in (-6, -3, -1, 0, 1, 3, 6)]
        case "NU", (variance, a, b):
            return [p + k * sqrt(variance) for p in (a, b) for k in (-6, -3, 0, 3, 6)]
    return list(one[1])
