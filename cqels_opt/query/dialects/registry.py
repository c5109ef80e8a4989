"""Dialects by name, and the recognition of a text's dialect."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from cqels_opt import plugins
from cqels_opt.errors import QueryError
from cqels_opt.query.dialects import BUILT_IN, added, names
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.reading import Dialect

_IN_ORDER_OF_RECOGNITION: Final = ("streaming-sparql", "rspql", "sparqlstream", "cqels", "csparql")

_NOT_WORDS = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""  # strings
    r"""|<[^\s<>"{}|^`\\]*>|\#[^\n]*""",  # IRIs and comments
    re.DOTALL,
)


def find(name: str, file: str = "query", others: tuple[str, ...] = ()) -> Dialect:
    """The dialect of a name. QueryError lists the known names, after ``others``; InputError where an entry point is no dialect."""
    if name in BUILT_IN:
        found: Dialect = import_module(f"{__package__}.{name.replace('-', '_')}").DIALECT
        return found
    if name in added():
        return plugins.load_named("dialects", name, Dialect)
    known = names()
    raise QueryError(f"unknown dialect {name!r}{nearest(str(name), known)}; there are {', '.join((*others, *known))}", file=file)


def recognise(text: str) -> Dialect:
    """The dialect of a text, by what only one of them writes; ``cqels`` where nothing decides.

    Added dialects are tried before ours: one that extends ours writes what ours writes, too.
    """
    words = _NOT_WORDS.sub(lambda found: {"#": " ", "<": " <> "}.get(found[0][0], '""'), text)
    words = re.sub(r"\s+", " ", words)
    in_order = map(find, (*added(), *_IN_ORDER_OF_RECOGNITION))
    return next((dialect for dialect in in_order if dialect.recognise.search(words)), find(BUILT_IN[0]))
