"""A standalone Spark cluster of the pip-installed Spark: a master and workers as processes on the loopback."""

from __future__ import annotations

import os
import re
import subprocess
import time
from itertools import count
from pathlib import Path

import pyspark

from cqels_opt.storage.cache_folder import CACHE_VARIABLE

SPARK = Path(pyspark.__file__).parent
LONGEST = 120.0
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"
JOINED = "Successfully registered with driver"
LEFT = "Executor {}/{} finished with state"


class Process:
    """A daemon of Spark's, whose log is a file of ``folder``."""

    def __init__(self, folder: Path, name: str, *words: str, **variables: str) -> None:
        self.log = folder / f"{name}.log"
        environment = {**os.environ, **variables, "SPARK_HOME": str(SPARK)}
        environment["SPARK_DAEMON_MEMORY"] = "256m"
        environment["JAVA_TOOL_OPTIONS"] = environment["SPARK_SUBMIT_OPTS"]  # which the executors that it starts inherit
        with self.log.open("wb") as log:
            command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def until(self, said: str | re.Pattern[str]) -> re.Match[str]:
        """Waits until the log says something."""
        latest = time.monotonic() + LONGEST
        while (found := re.search(said, self.log.read_text(errors="replace"))) is None:
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < latest, self.log.read_text(errors="replace")
            time.sleep(0.05)
        return found

    def end(self) -> None:
        """Kills it, where it still lives."""
        self.process.kill()
        self.process.wait()


class Standalone:
    """A master, and workers with one core and one executor each; and a host each, for no task has a speculative twin on its own host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.master = Process(folder, "master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = self.master.until(MASTER)[1]
        self.workers: list[Process] = []
        self._hosts = count()

    def fill(self, workers: int) -> None:
        """Starts workers until so many live."""
        self.workers = [worker for worker in self.workers if worker.process.poll() is None]
        hosts = [f"127.0.0.{2 + next(self._hosts)}" for _ in range(len(self.workers), workers)]
        place = ["--port", "0", "--webui-port", "0"]
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / "work")]
        caches = [{CACHE_VARIABLE: str(self.folder / f"cache-{host}")} for host in hosts]  # as on machines of their own
        started = [
            Process(self.folder, host, "worker.Worker", self.url, "--host", host, *place, *size, **cache)
            for host, cache in zip(hosts, caches)
        ]
        self.workers += started
        for worker in started:
            worker.until(REGISTERED)

    def executor_joins(self, number: int) -> None:
        """Waits until the last application's executor of this number has registered."""
        latest = time.monotonic() + LONGEST
        log = self._application() / str(number) / "stderr"
        while not log.exists() or JOINED not in log.read_text(errors="replace"):
            assert time.monotonic() < latest, f"no executor {number}"
            time.sleep(0.05)

    def executor_leaves(self, number: int) -> None:
        """Waits until the last application's executor of this number has ended."""
        latest = time.monotonic() + LONGEST
        said = LEFT.format(self._application().name, number)
        while not any(said in worker.log.read_text(errors="replace") for worker in self.workers):
            assert time.monotonic() < latest, f"executor {number} stays"
            time.sleep(0.05)

    def _application(self) -> Path:
        return max((self.folder / "work").iterdir())

    def keep(self, workers: int) -> None:
        """Kills workers until so many live."""
        for worker in self.workers[workers:]:
            worker.end()

    def end(self) -> None:
        """Kills all that is left of it."""
        for process in (*self.workers, self.master):
            process.end()
