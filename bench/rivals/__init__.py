"""The same queries as Spark jobs that a user would write by hand: what `cqels-opt bench` compares itself with.

``as_written.py`` and ``tuned.py`` are the jobs; the SQL of each query lies in the folders of the same names. Both read the stream and
the static data as strings, from Parquet, and write their answers as JSON, a folder a micro-batch.
"""
