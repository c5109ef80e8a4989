"""What ``make test-services`` has built and installed: servers, which are started on loopback, and a browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from services.browser import find_browser

#: The program of the server; `make test-services` sets it.
PROGRAM = "CQELS_OPT_S3_SERVER"
KAFKA = "CQELS_OPT_KAFKA_JARS"
STARTS_WITHIN = 60.0
"""Seconds."""


@dataclass(frozen=True)
class S3:
    """A server, and the folder in which its buckets are folders."""

    address: str
    folder: Path
    process: subprocess.Popen[bytes]

    def bucket(self, name: str) -> str:
        """The URI of a new bucket."""
        (self.folder / name).mkdir()
        return f"s3://{name}"


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    waited = threading.Event()
    for _ in range(int(STARTS_WITHIN / 0.1)):
        if process.poll() is not None or _answers(port):
            break
        waited.wait(0.1)
    assert process.poll() is None and _answers(port), log.read_text()


@dataclass
class Broker:
    """A server that can be killed and started again over the same data, on the same port."""

    words: list[str]
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)
        _until_it_answers(self.process, self.port, self.log)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Broker]:
    """An MQTT broker that keeps on its disk what it has accepted."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.fail("there is no mosquitto: run these tests with make test-services", pytrace=False)
    port = _free_port()
    (tmp_path / "mosquitto").mkdir()
    config = tmp_path / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\nmax_queued_messages 0\npersistence true\n"
        f"persistence_location {tmp_path}/mosquitto/\nautosave_on_changes true\nautosave_interval 1\n"
    )
    broker = Broker([program, "-c", str(config)], port, tmp_path / "mosquitto.log")
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of Kafka that is its own controller (KRaft); topics are made when they are first named, with two partitions."""
    jars = os.environ.get(KAFKA)
    if not jars:
        pytest.fail(f"{KAFKA} names no folder of jars: run these tests with make test-services", pytrace=False)
    port, controller, folder = _free_port(), _free_port(), tmp_path_factory.mktemp("kafka")
    config = folder / "kafka.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "log"),
        "num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "3000",  # a killed broker may start again after so long
        "broker.heartbeat.interval.ms": "500",
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
    made = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(config)]
    subprocess.run([*java, *made], check=True, capture_output=True)
    broker = Broker([*java, "kafka.Kafka", str(config)], port, folder / "kafka.log")
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """The server; credentials, region and address are in the environment, where Spark's workers find them too."""
    program = os.environ.get(PROGRAM)
    if not program:
        pytest.fail(f"{PROGRAM} names no server: run these tests with make test-services", pytrace=False)
    folder, port = tmp_path_factory.mktemp("s3"), _free_port()
    given = {
        "AWS_ACCESS_KEY_ID": "loopback",
        "AWS_SECRET_ACCESS_KEY": "only-for-tests",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CQELS_OPT_CACHE": str(tmp_path_factory.mktemp("cache")),
    }
    words = [program, "--access", given["AWS_ACCESS_KEY_ID"], "--secret", given["AWS_SECRET_ACCESS_KEY"], "--quiet"]
    with pytest.MonkeyPatch.context() as patch, (folder.with_suffix(".log")).open("wb") as log:
        for name, value in given.items():
            patch.setenv(name, value)
        process = subprocess.Popen([*words, "--port", f"127.0.0.1:{port}", "posix", str(folder)], stdout=log, stderr=log)
        try:
            _until_it_answers(process, port, Path(log.name))
            yield S3(given["AWS_ENDPOINT_URL"], folder, process)
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window; as root it has no sandbox of its own."""
    program = find_browser()
    if program is None:
        pytest.fail("there is no Chromium: run these tests with make test-services", pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()
