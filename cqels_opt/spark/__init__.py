"""The only room that imports pyspark: stages, sources, sinks, and the streaming life cycle."""
