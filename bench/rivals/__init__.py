"""The same queries as hand-written Spark jobs, for comparison in `cqels-opt bench`.

``as_written.py`` and ``tuned.py`` are the jobs; the SQL of each query is in the folders of the same names. Both read the stream
and the static data as strings, from Parquet, and write their answers as JSON, one folder per micro-batch.
"""
