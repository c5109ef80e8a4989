"""REGEX and REPLACE for rdflib in linear time, evaluated by pyoxigraph: Python's engine can take exponential time.

A pattern that pyoxigraph rejects (with a back-reference) is evaluated by rdflib.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyoxigraph as ox
from rdflib import Literal
from rdflib.plugins.sparql.operators import Builtin_REGEX, Builtin_REPLACE, string
from rdflib.plugins.sparql.parserutils import Expr

_STORE: Final = ox.Store()
_DOLLAR: Final = re.compile(r"\\([\\$])|\$([0-9])|([\\$])")


def regex(node: Expr, context: Any) -> Any:
    """REGEX of an rdflib expression."""
    found = _evaluated("REGEX", [string(node.text), string(node.pattern), *_flags(node)])
    return Builtin_REGEX(node, context) if found is None else Literal(found.value == "true")


def replace(node: Expr, context: Any) -> Any:
    """REPLACE of an rdflib expression."""
    source, (flags,) = string(node.arg), _flags(node)
    into = str(string(node.replacement))
    into = into.replace("$", "$$") if "q" in flags else _DOLLAR.sub(_rust, into)
    found = _evaluated("REPLACE", [source, string(node.pattern), Literal(into), flags])
    if found is None:
        return Builtin_REPLACE(node, context)
    return Literal(found.value, datatype=source.datatype, lang=source.language)


CALLS: Final[dict[str, Callable[[Expr, Any], Any]]] = {"Builtin_REGEX": regex, "Builtin_REPLACE": replace}


def _flags(node: Expr) -> list[Any]:
    return [string(node.flags) if node.flags else Literal("")]


def _rust(found: re.Match[str]) -> str:
    """A piece of a replacement in pyoxigraph's syntax: ``${1}`` for a group, ``$$`` for a dollar."""
    if found[2]:
        return f"${{{found[2]}}}"
    return "$$" if "$" in found[0] else "\\"


def _evaluated(name: str, terms: list[Any]) -> Any:
    """The result of pyoxigraph's function; None for an error."""
    texts = ", ".join(str(ox.Literal(str(term))) for term in terms)
    solutions: Any = _STORE.query(f"SELECT ({name}({texts}) AS ?found) {{}}")
    return next(iter(solutions))[0]
