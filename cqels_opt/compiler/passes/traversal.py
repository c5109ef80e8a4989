"""Applying a function to the parts of an algebra tree. A tree without changes is returned as the same object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_args

from cqels_opt.query import algebra as a

Part = TypeVar("Part")

_ALGEBRA = get_args(a.Algebra)


def map_inputs(node: Part, function: Callable[[a.Algebra], a.Algebra]) -> Part:
    """The node with each of its nearest algebra operators replaced, those of EXISTS in its expressions included."""
    if isinstance(node, tuple):
        parts = [_mapped(part, function) for part in node]
        return node if all(new is old for new, old in zip(parts, node)) else tuple(parts)  # type: ignore[return-value]
    if not is_dataclass(node):
        return node
    changed = {}
    for field in fields(node):
        old = getattr(node, field.name)
        if (new := _mapped(old, function)) is not old:
            changed[field.name] = new
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def bottom_up(node: a.Algebra, function: Callable[[a.Algebra], a.Algebra]) -> a.Algebra:
    """The tree with each operator replaced, inputs first."""
    return function(map_inputs(node, lambda part: bottom_up(part, function)))


def _mapped(part: Any, function: Callable[[a.Algebra], a.Algebra]) -> Any:
    return function(part) if isinstance(part, _ALGEBRA) else map_inputs(part, function)
