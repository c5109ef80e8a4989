"""Continuous SPARQL over RDF streams and Linked Open Data, on Spark, with plans that follow the data.

``Engine`` and what it returns are imported when they are first asked for, so that the command line's help needs no Spark.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cqels_opt.errors import CqelsOptError, InputError, LimitError, QueryError, RunError
from cqels_opt.spark.package import is_absent, missing

if TYPE_CHECKING:
    from cqels_opt import local
    from cqels_opt.adaptive_join import AdaptiveJoin, AdaptiveQuery, JoinRun, adaptive, adaptive_sql
    from cqels_opt.engine import Engine, KafkaTopic, Messages
    from cqels_opt.query.extensions import register_function
    from cqels_opt.query.uncertainty import register_distribution
    from cqels_opt.runtime.limits import Limits
    from cqels_opt.spark.adaptive_sparql import Adaptive
    from cqels_opt.spark.drop_in import together
    from cqels_opt.spark.extension import spark_extension
    from cqels_opt.spark.registered_query import CompiledQuery
    from cqels_opt.trace.listener import Listener
    from cqels_opt.trace.metrics import metrics

__all__ = [
    "Adaptive",
    "AdaptiveJoin",
    "AdaptiveQuery",
    "CompiledQuery",
    "CqelsOptError",
    "Engine",
    "InputError",
    "JoinRun",
    "KafkaTopic",
    "LimitError",
    "Limits",
    "Listener",
    "Messages",
    "QueryError",
    "RunError",
    "adaptive",
    "adaptive_sql",
    "local",
    "metrics",
    "register_distribution",
    "register_function",
    "spark_extension",
    "together",
]

_LATER = {
    "Adaptive": "spark.adaptive_sparql",
    "AdaptiveJoin": "adaptive_join",
    "AdaptiveQuery": "adaptive_join",
    "CompiledQuery": "spark.registered_query",
    "Engine": "engine",
    "JoinRun": "adaptive_join",
    "KafkaTopic": "engine",
    "Limits": "runtime.limits",
    "Listener": "trace.listener",
    "Messages": "engine",
    "adaptive": "adaptive_join",
    "adaptive_sql": "adaptive_join",
    "metrics": "trace.metrics",
    "register_distribution": "query.uncertainty",
    "register_function": "query.extensions",
    "spark_extension": "spark.extension",
    "together": "spark.drop_in",
}

logging.getLogger("cqels_opt").addHandler(logging.NullHandler())  # the application decides where messages go


def __getattr__(name: str) -> Any:
    if name == "local":  # a package, not a name in one
        return import_module("cqels_opt.local")
    if name in _LATER:
        try:
            return getattr(import_module(f"cqels_opt.{_LATER[name]}"), name)
        except ModuleNotFoundError as error:
            if not is_absent(error):
                raise
            raise missing(f"cqels_opt.{name}") from None
    raise AttributeError(f"module 'cqels_opt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
