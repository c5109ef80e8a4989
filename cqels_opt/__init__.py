"""Continuous SPARQL over RDF streams and Linked Open Data, on Spark, with plans that follow the data.

``Engine`` and what it returns are imported when they are first asked for, so that the command line's help needs no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cqels_opt.errors import CqelsOptError, InputError, QueryError, RunError

if TYPE_CHECKING:
    from cqels_opt.engine import Adaptive, CompiledQuery, Engine, KafkaTopic, Messages
    from cqels_opt.query.extensions import register_function
    from cqels_opt.query.uncertainty import register_distribution

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
    "register_distribution",
    "register_function",
]


def __getattr__(name: str) -> Any:
    if name in ("Adaptive", "CompiledQuery", "Engine", "KafkaTopic", "Messages"):
        from cqels_opt import engine

        return getattr(engine, name)
    if name == "register_function":
        from cqels_opt.query.extensions import register_function

        return register_function
    if name == "register_distribution":
        from cqels_opt.query.uncertainty import register_distribution

        return register_distribution
    raise AttributeError(f"module 'cqels_opt' has no attribute {name!r}")
