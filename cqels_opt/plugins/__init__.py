"""Parts that other packages add through entry points of their ``pyproject.toml`` (docs/extending.md)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from cqels_opt.errors import InputError, named

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group: TypeAlias = Literal["cost_models", "join_methods", "operators", "windows", "stream_operators", "dialects", "contenders"]
"""What can be added. The entry point's group is ``cqels_opt.<group>``; its name is the name that queries or options use."""

PREFIX: Final = "cqels_opt."


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)
"""A kind of part whose objects have the name of their entry point."""


@cache
def _installed(group: Group) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # 50 ms, which most usage errors need not take

    # Reading the metadata of all installed packages takes longer than parsing a query.
    return tuple(entry_points(group=PREFIX + group))


def names(group: Group) -> tuple[str, ...]:
    """The names that installed packages add to a group, sorted. Nothing is imported."""
    return tuple(sorted({entry.name for entry in _installed(group)}))


def load(group: Group, name: str) -> Any:
    """The object behind one entry point.

    Raises :class:`InputError` where no installed package has the entry point, where two packages do, or where its import fails.
    """
    found = [entry for entry in _installed(group) if entry.name == name]
    if not found:
        raise InputError(f"no installed package adds {name!r} to the entry points {PREFIX}{group}")
    if len({entry.value for entry in found}) > 1:
        packages = ", ".join(sorted(entry.dist.name for entry in found if entry.dist is not None))
        raise InputError(f"{name!r} is added to the entry points {PREFIX}{group} by several packages: {packages}")
    try:
        return found[0].load()
    except (Exception, SystemExit) as error:  # whatever its module does when it is imported
        raise InputError(f"the entry point {name!r} of {PREFIX}{group} cannot be loaded: {named(error)}") from error


def make(group: Group, name: str, *arguments: object) -> Any:
    """What the callable behind one entry point makes; :class:`InputError` as for :func:`load`, and where it raises."""
    factory = load(group, name)
    try:
        return factory(*arguments)
    except Exception as error:
        raise InputError(f"the entry point {name!r} of {PREFIX}{group} makes nothing: {named(error)}") from error


def load_class(group: Group, name: str, base: type) -> Any:
    """The class behind one entry point, as :func:`load`; :class:`InputError` also where it is no subclass of ``base``."""
    found = load(group, name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(f"the entry point {name!r} of {PREFIX}{group} is {found!r}, not a subclass of {base.__name__}")
    return found


def load_named(group: Group, name: str, kind: type[Named]) -> Named:
    """The object behind one entry point, as :func:`load`; :class:`InputError` also where it is no ``kind`` with the entry point's name."""
    found = load(group, name)
    if not isinstance(found, kind) or found.name != name:
        raise InputError(f"the entry point {name!r} of {PREFIX}{group} must be a {kind.__name__} with the name {name!r}")
    return found
