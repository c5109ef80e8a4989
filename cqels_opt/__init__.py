"""Continuous SPARQL over RDF streams and Linked Open Data, on Spark, with plans that follow the data.

``Engine`` and what it returns are imported when they are first asked for, so that the command line's help needs no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cqels_opt.errors import CqelsOptError, InputError, QueryError, RunError

if TYPE_CHECKING:
    from cqels_opt.engine import Adaptive, CompiledQuery, Engine, KafkaTopic, Messages

__all__ = [
    "Adaptive",
    "CompiledQuery",
    "CqelsOptError",
    "Engine",
    "InputError",
    "KafkaTopic",
    "Messages",
    "QueryError",
    "RunError",
]


def __getattr__(name: str) -> Any:
    if name in ("Adaptive", "CompiledQuery", "Engine", "KafkaTopic", "Messages"):
        from cqels_opt import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'cqels_opt' has no attribute {name!r}")
