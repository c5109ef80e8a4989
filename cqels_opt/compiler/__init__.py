"""From a query's algebra to a compiled program: passes and rules, blocks of joins, static relations, sharing between queries."""
