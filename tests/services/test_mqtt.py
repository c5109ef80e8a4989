"""MQTT through a real broker: gateway and broker are killed in mid-run, and what the broker has accepted is in the live folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from services.conftest import Broker
from spark.command import Command

from cqels_opt.rdf.streams import read_stream

EX = "http://ex.org/"
MAPPING = f"""
time = "at"
[[triples]]
subject = "{EX}sensor/{{id}}"
[triples.properties]
"{EX}celsius" = {{ column = "celsius" }}
"""


@pytest.fixture
def publisher(mosquitto: Broker) -> Iterator[Client]:
    client = Client(CallbackAPIVersion.VERSION2, "publisher")
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", mosquitto.port)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


def publish(client: Client, first: int, last: int) -> None:
    """Messages at QoS 1, which the broker has accepted when this returns."""
    for number in range(first, last):
        value = json.dumps({"id": number, "celsius": number / 2, "at": number})
        client.publish(f"sensors/{number % 3}", value, qos=1).wait_for_publish(60)


def seen(folder: Path) -> list[int]:
    """The times of the elements in the folder, in the order in which a run reads them."""
    files = sorted(file for file in folder.iterdir() if file.name[0] not in "._") if folder.exists() else []
    return [row["t"] for file in files for batch in read_stream(file) for row in batch.to_pylist()]


def test_nothing_is_lost_when_gateway_and_broker_are_killed(tmp_path: Path, mosquitto: Broker, publisher: Client) -> None:
    folder, mapping = tmp_path / "live", tmp_path / "sensors.toml"
    mapping.write_text(MAPPING)
    words = ["gateway", f"mqtt://127.0.0.1:{mosquitto.port}/sensors/#", str(folder), "--payload", str(mapping), "--every", "50ms"]
    gateway = Command([*words, "--client", "tested"])
    gateway.until(lambda: "tested" in mosquitto.log.read_text())
    gateway.until(lambda: _subscribed(publisher, folder))
    publish(publisher, 0, 40)
    gateway.until(lambda: len(seen(folder)) > 10)
    gateway.kill()
    publish(publisher, 40, 60)  # the broker keeps them for the gateway's session
    gateway = Command([*words, "--client", "tested"])
    gateway.until(lambda: set(seen(folder)) >= set(range(60)))
    mosquitto.kill()
    mosquitto.start()
    gateway.until(publisher.is_connected)
    publish(publisher, 60, 80)
    publisher.publish("sensors/0", b"not JSON", qos=1).wait_for_publish(60)
    gateway.until(lambda: set(seen(folder)) >= set(range(80)) and (folder / "_refused.jsonl").exists())
    gateway.interrupt()
    done = gateway.finish()
    assert done.code == 0, done.err
    assert "1 refused" in done.err
    assert set(seen(folder)) == set(range(80))
    assert "is not JSON" in (folder / "_refused.jsonl").read_text()


def _subscribed(client: Client, folder: Path) -> bool:
    """Whether the gateway hears of messages by now: its subscription comes after its connection."""
    publish(client, 0, 1)
    return bool(seen(folder))
