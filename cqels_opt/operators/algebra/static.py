"""A static relation as an input of an operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.operators.algebra.operator import Leaf
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.blocks import Static
from cqels_opt.operators.interval_join import Indexed, as_rows
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.state.worker_cache import relation
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER


@dataclass(frozen=True, slots=True)
class StaticNode(Leaf):
    """A static relation, valid always."""

    static: Static

    def output(self, schema: Schema) -> Names:
        """The variables of the relation."""
        return frozenset(self.static.variables)

    def certain(self, schema: Schema) -> Names:
        """The same, unless some rows leave a variable unbound."""
        return frozenset() if self.static.partial else frozenset(self.static.variables)

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """By the index of the relation."""
        found, variables = relation(scope.store, self.static.at), self.static.variables
        keys = keys.narrowed(variables)
        if keys.all or keys.parts > 1:
            return scope.always(as_rows(found, variables))
        size = len(keys.columns[0])
        probe = keys.rows().with_interval(np.full(size, BEFORE_TIME), np.full(size, FOREVER))
        return scope.always(concat([empty(variables), *Indexed.of_static(found, variables).probe(probe, keys.variables)]))
