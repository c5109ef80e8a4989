"""Making a failing case small: parts of the query, elements and triples go for as long as the case fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from random_cases import Case, Group, Nested


def smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them, the largest steps first."""
    for group in _smaller_groups(case.body):
        yield replace(case, body=group)
    for i in range(len(case.modifiers)):
        yield replace(case, modifiers=(*case.modifiers[:i], *case.modifiers[i + 1 :]))
    world = case.world
    for iri, files in world.streams.items():
        for i, file in enumerate(files):
            for kept in _without(list(file)):
                yield replace(case, world=replace(world, streams={**world.streams, iri: [*files[:i], kept, *files[i + 1 :]]}))
            for j, element in enumerate(file):
                if len(element.triples) > 1:
                    for k in range(len(element.triples)):
                        less = replace(element, triples=(*element.triples[:k], *element.triples[k + 1 :]))
                        changed = [*file[:j], less, *file[j + 1 :]]
                        yield replace(
                            case, world=replace(world, streams={**world.streams, iri: [*files[:i], changed, *files[i + 1 :]]})
                        )
    for kept in _without(world.default):
        yield replace(case, world=replace(world, default=kept))
    for name, triples in world.graphs.items():
        for kept in _without(triples):
            yield replace(case, world=replace(world, graphs={**world.graphs, name: kept}))


def _without(items: Sequence[Any]) -> Iterator[list[Any]]:
    size = len(items)
    while size:
        for at in range(0, len(items), size):
            yield [*items[:at], *items[at + size :]]
        size //= 2


def _smaller_groups(group: Group) -> Iterator[Group]:
    for i, part in enumerate(group.parts):
        if len(group.parts) > 1:
            yield Group((*group.parts[:i], *group.parts[i + 1 :]))
        if isinstance(part, Nested):
            if part.head in ("", "OPTIONAL"):
                for inner in part.groups:
                    yield Group((*group.parts[:i], *inner.parts, *group.parts[i + 1 :]))
            if len(part.groups) > 2:
                for j in range(len(part.groups)):
                    less = replace(part, groups=(*part.groups[:j], *part.groups[j + 1 :]))
                    yield Group((*group.parts[:i], less, *group.parts[i + 1 :]))
            for j, inner in enumerate(part.groups):
                for small in _smaller_groups(inner):
                    less = replace(part, groups=(*part.groups[:j], small, *part.groups[j + 1 :]))
                    yield Group((*group.parts[:i], less, *group.parts[i + 1 :]))


def shrunk(case: Case, fails: Callable[[Case], bool], budget: int = 2000) -> Case:
    """The smallest case found that still fails. A case that is no query any more does not fail."""
    going = True
    while going and budget > 0:
        going = False
        for candidate in smaller(case):
            budget -= 1
            if budget <= 0:
                break
            if fails(candidate):
                case, going = candidate, True
                break
    return case
