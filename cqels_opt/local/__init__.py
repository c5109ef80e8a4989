"""The local engine: the same queries, answers, checkpoints and traces as on Spark, in this process, without Java.

``cq.local.Engine`` is its public name; ``cqels-opt run --engine local`` is the same engine. See docs/local-engine.md.
"""

from cqels_opt.local.engine import CompiledQuery, Engine
from cqels_opt.local.run import LocalRun

__all__ = ["CompiledQuery", "Engine", "LocalRun"]
