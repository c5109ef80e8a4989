"""Parts that other packages add through entry points of their ``pyproject.toml`` (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Final, Literal, TypeAlias

from cqels_opt.errors import InputError

Group: TypeAlias = Literal["cost_models", "join_methods", "operators", "windows", "stream_operators", "dialects", "contenders"]
"""What can be added. The entry point's group is ``cqels_opt.<group>``; its name is the name that queries or options use."""

PREFIX: Final = "cqels_opt."


def names(group: Group) -> tuple[str, ...]:
    """The names that installed packages add to a group, sorted. Nothing is imported."""
    return _names(entry_points, group)


@cache
def _names(installed: Callable[..., EntryPoints], group: Group) -> tuple[str, ...]:
    # Reading the metadata of all installed packages takes longer than parsing a query.
    return tuple(sorted({entry.name for entry in installed(group=PREFIX + group)}))


@cache
def load(group: Group, name: str) -> Any:
    """The object behind one entry point.

    Raises :class:`InputError` where no installed package has the entry point, where two packages do, or where its import fails.
    """
    found = list(entry_points(group=PREFIX + group, name=name))
    if not found:
        raise InputError(f"no installed package adds {name!r} to the entry points {PREFIX}{group}")
    if len({entry.value for entry in found}) > 1:
        packages = ", ".join(sorted(entry.dist.name for entry in found if entry.dist is not None))
        raise InputError(f"{name!r} is added to the entry points {PREFIX}{group} by several packages: {packages}")
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"the entry point {name!r} of {PREFIX}{group} cannot be loaded: {error}") from error
