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
    if isinstance(part, a.Call):
        arguments = _mapped(function, part.arguments)
        return part if arguments is part.arguments else replace(part, arguments=arguments)
    return _elements(partial(_mapped, function), part) if isinstance(part, tuple) else part


def map_calls(function: Callable[[a.Call], a.Call], part: Any) -> Any:
    """A tree, or a part of one, with each call replaced, its arguments first."""
    if isinstance(part, tuple):
        return _elements(partial(map_calls, function), part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    found = {field.name: map_calls(function, getattr(part, field.name)) for field in fields(part)}
    changed = {name: new for name, new in found.items() if new is not getattr(part, name)}
    new = replace(part, **changed) if changed else part
    return function(new) if isinstance(new, a.Call) else new


def _elements(function: Callable[[Any], Any], old: tuple[Any, ...]) -> tuple[Any, ...]:
    new = tuple(map(function, old))
    return old if all(map(is_, new, old)) else new
