"""The operators above the joins of a query, one file for each."""
