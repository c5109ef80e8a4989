"""From a query's text to its algebra; expressions and aggregates."""
