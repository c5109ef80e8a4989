"""The jobs of ``cqels-opt bench adaptive-join``: one module per job, and the modules that measure and compare them."""
