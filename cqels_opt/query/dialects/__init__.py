"""The registry of query languages, and the recognition of a text's language.

A dialect is one module that states only its differences from SPARQL 1.1: grammar, meaning of its clauses, defaults, and how a query is
written in it. Other packages add dialects through the entry points ``cqels_opt.dialects`` (docs/extending.md).
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from cqels_opt import plugins
from cqels_opt.errors import InputError, QueryError
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.reading import Dialect

BUILT_IN: Final = ("cqels", "rspql", "csparql", "sparqlstream", "streaming-sparql")
"""Each is a module of this package, with ``_`` for ``-``, that holds one ``DIALECT``. The first is the default."""
_IN_ORDER_OF_RECOGNITION: Final = ("streaming-sparql", "rspql", "sparqlstream", "cqels", "csparql")

_NOT_WORDS = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""  # strings
    r"""|<[^\s<>"{}|^`\\]*>|\#[^\n]*""",  # IRIs and comments
    re.DOTALL,
)


def names() -> tuple[str, ...]:
    """The names of all dialects, ours first. Nothing is imported."""
    return (*BUILT_IN, *_added())


def _added() -> tuple[str, ...]:
    """The names that other packages add; they cannot replace ours."""
    return tuple(name for name in plugins.names("dialects") if name not in BUILT_IN)


def find(name: str, file: str = "query", others: tuple[str, ...] = ()) -> Dialect:
    """The dialect of a name. QueryError lists the known names, after ``others``; InputError where an entry point is no dialect."""
    if name in BUILT_IN:
        found = import_module(f"{__name__}.{name.replace('-', '_')}").DIALECT
    elif name in _added():
        found = plugins.load("dialects", name)
    else:
        known = names()
        raise QueryError(f"unknown dialect {name!r}{nearest(name, known)}; there are {', '.join((*others, *known))}", file=file)
    if not isinstance(found, Dialect) or found.name != name:
        raise InputError(f"the entry point {name!r} of cqels_opt.dialects must be a Dialect with the name {name!r}")
    return found


def recognise(text: str) -> Dialect:
    """The dialect of a text, by what only one of them writes; ``cqels`` where nothing decides.

    Added dialects are tried before ours: one that extends ours writes what ours writes, too.
    """
    words = _NOT_WORDS.sub(lambda found: {"#": " ", "<": " <> "}.get(found[0][0], '""'), text)
    words = re.sub(r"\s+", " ", words)
    in_order = map(find, (*_added(), *_IN_ORDER_OF_RECOGNITION))
    return next((dialect for dialect in in_order if dialect.recognise.search(words)), find(BUILT_IN[0]))
