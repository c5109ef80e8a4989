"""Applying a function to the parts of an algebra tree. A tree without changes is returned as the same object.

Recursion takes two frames per algebra level and one per expression level: queries may be nested 200 levels deep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from operator import is_
from typing import Any, get_args

from cqels_opt.query import algebra as a

_ALGEBRA = get_args(a.Algebra)


def bottom_up(function: Callable[[a.Algebra], a.Algebra], node: a.Algebra) -> a.Algebra:
    """The tree with each operator replaced, inputs first."""
    return function(map_inputs(partial(bottom_up, function), node))


def map_inputs(function: Callable[[a.Algebra], a.Algebra], node: a.Algebra) -> a.Algebra:
    """The operator with each of its inputs replaced, those of EXISTS in its expressions included."""
    if isinstance(node, a.Bgp | a.Values):
        return node
    changed: dict[str, Any] = {}
    for field in fields(node):
        old = getattr(node, field.name)
        if (new := function(old) if isinstance(old, _ALGEBRA) else _mapped(function, old)) is not old:
            changed[field.name] = new
    return replace(node, **changed) if changed else node


def _mapped(function: Callable[[a.Algebra], a.Algebra], part: Any) -> Any:
    """The same for an expression, or for another part of an operator."""
    if isinstance(part, a.Exists):
        pattern = function(part.pattern)
        return part if pattern is part.pattern else replace(part, pattern=pattern)
    if isinstance(part, a.Aggregate):
        argument = _mapped(function, part.argument)
        return part if argument is part.argument else replace(part, argument=argument)
    if not isinstance(part, tuple | a.Call):
        return part
    old = part.arguments if isinstance(part, a.Call) else part
    new = []
    for element in old:
        new.append(_mapped(function, element))
    if all(map(is_, new, old)):
        return part
    return replace(part, arguments=tuple(new)) if isinstance(part, a.Call) else tuple(new)


def map_calls(function: Callable[[a.Call], a.Call], part: Any) -> Any:
    """A tree, or a part of one, with each call replaced, its arguments first."""
    names: tuple[str, ...] = ()
    if isinstance(part, tuple | a.Call):
        old = part.arguments if isinstance(part, a.Call) else part
    elif is_dataclass(part) and not isinstance(part, a.Bgp | a.Values):
        names = tuple(field.name for field in fields(part))
        old = tuple(getattr(part, name) for name in names)
    else:
        return part
    new = []
    for element in old:
        new.append(map_calls(function, element))
    same = all(map(is_, new, old))
    if isinstance(part, a.Call):
        return function(part if same else replace(part, arguments=tuple(new)))
    if same:
        return part
    return replace(part, **dict(zip(names, new))) if names else tuple(new)
