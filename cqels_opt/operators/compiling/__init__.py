"""From a query's algebra to a program: blocks of joins, the static parts that are evaluated once, and the operators above them."""
