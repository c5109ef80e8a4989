"""RDF: terms, their 64-bit ids, and readers of static data and stream elements."""
