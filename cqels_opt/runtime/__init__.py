"""The micro-batch: ingest and evaluate tasks, the driver, a runner that needs no Spark, the query catalog, quotas, reconfiguration."""
