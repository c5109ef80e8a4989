"""Sub-results over one version of the store from those over the version before (CQELS report §4.2; DESIGN §7).

A sub-result is a join that is projected, with multiplicities. Its change is a join of what changed in one of its sides with the other side,
so where an update is small beside the data, the old table and its change are less work than the join of all rows. Which is less is known
exactly: both count the rows that are passed through. The tables are the same.
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
    """The version before: its store, and the folders of its sub-results by their recipes. ``kept`` counts those that were changed."""

    before: str
    made: Mapping[str, str]
    kept: int = field(default=0)

    @classmethod
    def read(cls, store: Path | str, folder: Path) -> ViewMaintenance | None:
        """What a registration over a version has left in its folder."""
        try:
            return cls(str(store), json.loads(disk.read(folder / RECIPES)))
        except (OSError, ValueError):
            return None  # everything is made anew

    def of_pattern(self, at: StaticPattern, after: Relation) -> Change | None:
        """The change of a pattern that has these bindings now."""
        return cache(lambda: difference(open_store(self.before).match(at), after)) if at.variables else None

    def joined(
        self, recipe: str, a: Relation, b: Relation, change: Change, changes: Callable[[], tuple[Relation, Relation]]
    ) -> Relation | None:
        """The join of two relations, projected, where the old table and its change are less work than all of it."""
        place = self.made.get(recipe)
        if place is None:
            return None
        try:
            before = Relation.open(Path(place))
            if before.rows + rows_of_change(a, b, *changes()) >= join_rows(a, b):
                return None
            found = applied(before, change())
        except (StoreError, ValueError):  # it is damaged, or not what it says: it is made anew
            return None
        self.kept += 1
        return found


def joined_text(a: str, b: str, kept: Sequence[str]) -> str:
    """What a join is made of, as a text that is the same for every version; empty where that is not known of its sides."""
    return projected_text(f"({a} {b})", kept) if a and b else ""


def projected_text(of: str, kept: Sequence[str]) -> str:
    """The same of a projection."""
    return f"{of} {list(kept)}" if of else ""


def write_recipes(folder: Path, made: Mapping[str, str]) -> None:
    """Leaves what the next version needs to know."""
    disk.write_atomically(folder / RECIPES, json.dumps(made).encode())
