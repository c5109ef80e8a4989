"""From a query text to its algebra, and the evaluation of expressions and aggregates."""
