"""The names of the query languages. A dialect is one module of this package that states only its differences from SPARQL 1.1.

Other packages add dialects through the entry points ``cqels_opt.dialects`` (docs/extending.md). Importing this package loads none.
"""

from __future__ import annotations

from typing import Final

from cqels_opt import plugins

BUILT_IN: Final = ("cqels", "rspql", "csparql", "sparqlstream", "streaming-sparql")
"""Each is a module of this package, with ``_`` for ``-``, that holds one ``DIALECT``. The first is the default."""

ENGINES: Final = ("cqels-1.x",)
"""Engines that answer otherwise than the language that they read says; their profiles are in :mod:`.profiles`."""


def names() -> tuple[str, ...]:
    """The names of all dialects, ours first."""
    return (*BUILT_IN, *added())


def profile_names() -> tuple[str, ...]:
    """The names of all profiles, those of dialects first."""
    return (*names(), *ENGINES)


def added() -> tuple[str, ...]:
    """The names that other packages add; they cannot replace ours."""
    return tuple(name for name in plugins.names("dialects") if name not in BUILT_IN)
