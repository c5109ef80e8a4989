"""Sub-results over one version of the store from those over the previous version (CQELS report §4.2; DESIGN §7).

A sub-result is a projected join with multiplicities. Its change is the join of the change of one side with the other side. Where an update
is small compared with the data, applying the change to the previous table is less work than the whole join. Both costs are exact: the
number of rows that each produces. The resulting tables are equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from cqels_opt.errors import StoreError
from cqels_opt.lod.changes import applied, difference, rows_of_change
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.relation import Relation, join_rows
from cqels_opt.lod.store import StaticPattern
from cqels_opt.storage import disk

RECIPES: Final = "recipes.json"

Change = Callable[[], Relation]


@dataclass(slots=True)
class ViewMaintenance:
    """The previous version: its store, and the folders of its sub-results by recipe. ``kept`` counts those that were updated."""

    before: str
    made: Mapping[str, str]
    kept: int = field(default=0)

    @classmethod
    def read(cls, store: Path | str, folder: Path) -> ViewMaintenance | None:
        """The recipes that a registration over a version wrote to its folder; None where there are none."""
        try:
            return cls(str(store), json.loads(disk.read(folder / RECIPES)))
        except (OSError, ValueError):
            return None  # everything is computed again

    def of_pattern(self, at: StaticPattern, after: Relation) -> Change | None:
        """The change of a pattern whose current bindings are ``after``."""
        return cache(lambda: difference(open_store(self.before).match(at), after)) if at.variables else None

    def joined(
        self, recipe: str, a: Relation, b: Relation, change: Change, changes: Callable[[], tuple[Relation, Relation]]
    ) -> Relation | None:
        """The projected join of two relations, where updating the previous table is less work than computing it."""
        place = self.made.get(recipe)
        if place is None:
            return None
        try:
            before = Relation.open(Path(place))
            if before.rows + rows_of_change(a, b, *changes()) >= join_rows(a, b):
                return None
            found = applied(before, change())
        except (StoreError, ValueError):  # it is damaged, or does not match its description: it is computed again
            return None
        self.kept += 1
        return found


def joined_text(a: str, b: str, kept: Sequence[str]) -> str:
    """The recipe of a join, the same text for every version; empty where the recipe of a side is unknown."""
    return projected_text(f"({a} {b})", kept) if a and b else ""


def projected_text(of: str, kept: Sequence[str]) -> str:
    """The recipe of a projection."""
    return f"{of} {list(kept)}" if of else ""


def write_recipes(folder: Path, made: Mapping[str, str]) -> None:
    """Writes the recipes for the next version."""
    disk.write_atomically(folder / RECIPES, json.dumps(made).encode())
