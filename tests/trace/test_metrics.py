"""Prometheus metrics from Python: a listener that fills a registry of prometheus_client."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

import cqels_opt as cq
from cqels_opt.errors import LimitError
from cqels_opt.trace.listener import BatchReporter

from .test_listener import RECORD, SWITCHED


def test_runs_fill_the_registry_that_they_are_given() -> None:
    registry = CollectorRegistry()
    one, other = BatchReporter(cq.metrics(registry)), BatchReporter(cq.metrics(registry))
    one.batches([RECORD])
    one.batches([SWITCHED])
    other.batches([replace(RECORD, query="q2", answers=None)])
    other.failure("q2", 13, LimitError("too many rows"))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"cqels_opt_{name}", labels)

    assert value("elements_total", query="q1") == 2_400
    assert value("answers_total", query="q1") == 68
    assert value("answers_total", query="q2") == 0
    assert value("plan_switches_total", query="q1", source="departures") == 1
    assert value("phase_seconds_total", query="q1", phase="sink") == 2.4
    assert value("batch_duration_seconds_count", query="q1") == 2
    assert value("last_batch", query="q1") == 13
    assert value("failures_total", query="q2") == 1
    assert value("failures_total", query="q1") is None
    assert b'cqels_opt_spark_jobs_total{query="q1"} 2.0' in generate_latest(registry)


def test_a_registry_has_one_set_of_metrics() -> None:
    """A notebook cell may run again: prometheus_client refuses to register a name twice."""
    registry = CollectorRegistry()
    assert cq.metrics(registry) is cq.metrics(registry)
    assert cq.metrics(registry) is not cq.metrics(CollectorRegistry())
    with pytest.raises(cq.InputError, match=r"^metrics\(…\) expects a CollectorRegistry of prometheus_client, not int$"):
        cq.metrics(9108)  # type: ignore[arg-type]


def test_the_default_is_the_registry_that_start_http_server_serves() -> None:
    metrics = cq.metrics()
    assert metrics is cq.metrics(REGISTRY)
    metrics.on_batch(replace(RECORD, query="of the default registry"))
    assert REGISTRY.get_sample_value("cqels_opt_elements_total", {"query": "of the default registry"}) == 1_200
