"""From a query's algebra to a compiled query: blocks of joins, static parts that are evaluated once, operators above them."""
