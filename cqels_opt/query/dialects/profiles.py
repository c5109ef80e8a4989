"""The profiles: one for each dialect, and those of engines that answer otherwise than the language that they read says.

``cqels-1.x`` is CQELS 1.0 and its later 1.x versions. `RangeWindow.java` of these keeps both ends of a range, and purges at slides. They
evaluate a query when an element arrives, never because one expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cqels_opt.errors import QueryError
from cqels_opt.query.dialects import profile_names
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.reading import Profile

OF_ENGINES: Final[Mapping[str, Profile]] = {
    "cqels-1.x": Profile("ea", "istream", "bag", {"range": "purged", "grid": "purged"}),
}
"""The profiles that are of an engine and of no dialect."""


def find_profile(name: str) -> Profile:
    """The profile of an engine or of a dialect. QueryError lists the known profiles."""
    if (found := OF_ENGINES.get(name)) is not None:
        return found
    if name not in (known := profile_names()):
        raise QueryError(f"unknown profile {name!r}{nearest(str(name), known)}; there are {', '.join(known)}")
    return find(name).profile
