"""Families of distributions: the literals ``name(p1, p2, …)`` of type ``rspu:distribution`` and their distribution functions.

``N(mean, variance)`` and ``U(a, b)`` are the paper's. Their sums need three more families: ``T(a, b, c, d)``, a trapezoid that
rises from a to b and falls from c to d (sum of two uniform distributions); ``NU(variance, a, b)``, the sum of a normal
distribution with mean 0 and a uniform one; and ``Q(x0, …, x256)``, the quantiles at :func:`levels` with linear interpolation (all
other, numerical sums). :func:`register_distribution` adds any distribution of scipy.

All functions take the parameters as a matrix with one row per distribution and the points as a matrix with as many rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import InputError

Floats: TypeAlias = "NDArray[np.float64]"
Mask: TypeAlias = "NDArray[np.bool_]"
OfPoints: TypeAlias = Callable[[Floats, Floats], Floats]

CELLS: Final = 256
REACH: Final = 6.0  # range of the levels of Q, in standard deviations of a normal distribution
GRID: Final = 2049
FAR: Final = 40.0  # standard deviations beyond which a normal distribution has no mass
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of distributions.

    ``parameters`` is their number. ``valid`` returns which rows of parameters are valid, ``cdf`` and ``sf`` the probabilities of
    at most and of more than each point, ``quantile`` the inverse of ``cdf``. ``given`` is the function of a family that a user
    registered.
    """

    name: str
    parameters: int
    valid: Callable[[Floats], Mask]
    cdf: OfPoints
    sf: OfPoints
    quantile: OfPoints
    given: Callable[..., Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickling registers the family."""
        return (_register, (self.name, self.parameters, self.given)) if self.given else (family, (self.name,))


# ------------------------------------------------------------------ closed forms
def _scipy_special() -> Any:
    """scipy's functions, imported on first use: the import is slow and rarely needed."""
    from scipy import special

    return special


def _columns(p: Floats) -> tuple[Floats, ...]:
    """Each parameter as a column matrix, which broadcasts with a matrix of points."""
    return tuple(p[:, i : i + 1] for i in range(p.shape[1]))


def _finite(p: Floats) -> Mask:
    found: Mask = np.logical_and.reduce(np.isfinite(p), axis=1)
    return found


def _normal(p: Floats, x: Floats, sign: float) -> Floats:
    mean, variance = _columns(p)
    found: Floats = _scipy_special().ndtr(sign * (x - mean) / np.sqrt(variance))
    return found


def _normal_quantile(p: Floats, u: Floats) -> Floats:
    mean, variance = _columns(p)
    found: Floats = mean + np.sqrt(variance) * _scipy_special().ndtri(u)
    return found


def _uniform(p: Floats, x: Floats) -> Floats:
    a, b = _columns(p)
    found: Floats = np.clip((x - a) / (b - a), 0.0, 1.0)
    return found


def _uniform_quantile(p: Floats, u: Floats) -> Floats:
    a, b = _columns(p)
    return a + u * (b - a)


def _trapezoid(p: Floats, x: Floats) -> Floats:
    a, b, c, d = _columns(p)
    height = 2 / ((d - a) + (c - b))
    up = height * np.square(np.clip(x, a, b) - a) / (2 * (b - a))
    level = height * (np.clip(x, b, c) - b)
    down = height * ((d - c) - np.square(d - np.clip(x, c, d)) / (d - c)) / 2
    return up + level + down


def _trapezoid_quantile(p: Floats, u: Floats) -> Floats:
    a, b, c, d = _columns(p)
    height = 2 / ((d - a) + (c - b))
    low, high = height * (b - a) / 2, 1 - height * (d - c) / 2
    up = a + np.sqrt(np.maximum(2 * (b - a) * u / height, 0))
    down = d - np.sqrt(np.maximum(2 * (d - c) * (1 - u) / height, 0))
    return np.where(u < low, up, np.where(u > high, down, b + (u - low) / height))


def _normal_and_uniform(p: Floats, x: Floats) -> Floats:
    """The mean of Φ over an interval: (g(z_a) − g(z_b)) / (z_a − z_b) with g(z) = z·Φ(z) + φ(z)."""
    variance, a, b = _columns(p)
    sigma = np.sqrt(variance)
    x = np.clip(x, a - FAR * sigma, b + FAR * sigma)  # infinity as well
    za, zb = (x - a) / sigma, (x - b) / sigma
    width, middle = (b - a) / sigma, (za + zb) / 2
    narrow = _scipy_special().ndtr(middle) - np.square(width) / 24 * middle * _density(middle)  # avoids cancellation
    return np.clip(np.where(width < 1e-3, narrow, (_rising(za) - _rising(zb)) / width), 0.0, 1.0)


def _rising(z: Floats) -> Floats:
    found: Floats = z * _scipy_special().ndtr(z) + _density(z)
    return found


def _density(z: Floats) -> Floats:
    found: Floats = np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi)
    return found


def _mirrored(cdf: OfPoints) -> OfPoints:
    """The sf of a family whose mirror image has its parameters reversed and negated."""
    return lambda p, x: cdf(-p[:, ::-1], -x)


def _normal_and_uniform_sf(p: Floats, x: Floats) -> Floats:
    return _normal_and_uniform(np.column_stack([p[:, 0], -p[:, 2], -p[:, 1]]), -x)


def _normal_and_uniform_quantile(p: Floats, u: Floats) -> Floats:
    """By linear interpolation on a grid: the inverse has no closed form."""
    variance, a, b = _columns(p)
    reach = 9 * np.sqrt(variance)
    grid = (a - reach) + (b - a + 2 * reach) * np.linspace(0, 1, GRID)
    at = _normal_and_uniform(p, grid)
    return np.stack([np.interp(*row) for row in zip(u, at, grid)])


# ------------------------------------------------------------------ quantiles
@cache
def levels() -> Floats:
    """The probabilities of the quantiles of ``Q``: Φ at equal distances, so that the tails are resolved; the ends are 0 and 1."""
    found: Floats = _scipy_special().ndtr(np.linspace(-REACH, REACH, CELLS + 1))
    found[0], found[-1] = 0.0, 1.0
    return found


def _quantiles(p: Floats, x: Floats) -> Floats:
    return np.stack([np.interp(points, row, levels()) for points, row in zip(x, p)])


def _quantiles_quantile(p: Floats, u: Floats) -> Floats:
    return np.stack([np.interp(points, levels(), row) for points, row in zip(u, p)])


# ------------------------------------------------------------------ the table
N: Final = Family(
    "N",
    2,
    lambda p: _finite(p) & (p[:, 1] > 0),
    lambda p, x: _normal(p, x, 1.0),
    lambda p, x: _normal(p, x, -1.0),
    _normal_quantile,
)
U: Final = Family("U", 2, lambda p: _finite(p) & (p[:, 0] < p[:, 1]), _uniform, _mirrored(_uniform), _uniform_quantile)
T: Final = Family(
    "T",
    4,
    lambda p: _finite(p) & (p[:, 0] < p[:, 1]) & (p[:, 1] <= p[:, 2]) & (p[:, 2] < p[:, 3]),
    _trapezoid,
    _mirrored(_trapezoid),
    _trapezoid_quantile,
)
NU: Final = Family(
    "NU",
    3,
    lambda p: _finite(p) & (p[:, 0] > 0) & (p[:, 1] < p[:, 2]),
    _normal_and_uniform,
    _normal_and_uniform_sf,
    _normal_and_uniform_quantile,
)
Q: Final = Family(
    "Q",
    CELLS + 1,
    lambda p: _finite(p) & (np.diff(p, axis=1) >= 0).all(axis=1) & (p[:, 0] < p[:, -1]),
    _quantiles,
    lambda p, x: 1 - _quantiles(p, x),
    _quantiles_quantile,
)
FAMILIES: Final[dict[str, Family]] = {found.name: found for found in (N, U, T, NU, Q)}


def family(name: str) -> Family | None:
    """The family of this name, or None."""
    return FAMILIES.get(name)


def registered_families() -> tuple[Family, ...]:
    """The families that a user registered."""
    return tuple(found for found in FAMILIES.values() if found.given)


# ------------------------------------------------------------------ user-defined families
def register_distribution(name: str, parameters: int, distribution: Callable[..., Any]) -> None:
    """Lets literals name another family: ``name(p1, …)``, with this number of parameters.

    ``distribution`` takes one array per parameter and returns a frozen distribution of ``scipy.stats`` over them, for example
    ``lambda rate: scipy.stats.expon(scale=1 / rate)``. Parameters that scipy rejects are an error of the expression. Raises
    InputError for an invalid name or the name of a built-in family.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a family of distributions: letters, digits and _, beginning with a letter")
    known = FAMILIES.get(name)
    if known is not None and known.given is None:
        raise InputError(f"there is a family {name!r} already: register yours under another name")
    if not isinstance(parameters, int) or parameters < 1:
        raise InputError(f"{name}: a family has at least 1 parameter, not {parameters}")
    if not callable(distribution):
        raise InputError(f"{name}: a function that returns a distribution is expected, not {type(distribution).__name__}")
    _register(name, parameters, distribution)


def _register(name: str, parameters: int, distribution: Callable[..., Any]) -> Family:
    def frozen(p: Floats) -> Any:
        return distribution(*_columns(p))

    def valid(p: Floats) -> Mask:
        middle = np.asarray(frozen(p).median(), np.float64)  # NaN in scipy if the parameters are out of range
        found: Mask = _finite(p) & np.isfinite(np.broadcast_to(middle, (len(p), 1)))[:, 0]
        return found

    found = FAMILIES[name] = Family(
        name,
        parameters,
        valid,
        lambda p, x: np.asarray(frozen(p).cdf(x)),
        lambda p, x: np.asarray(frozen(p).sf(x)),
        lambda p, u: np.asarray(frozen(p).ppf(u)),
        distribution,
    )
    return found
