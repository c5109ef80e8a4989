"""A declared scenario: data, queries, rates, contenders and varied parameters, in one TOML file (docs/benchmarking.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from cqels_opt.bench.contenders import check_options
from cqels_opt.bench.loading import toml_of
from cqels_opt.bench.scenarios import QUERIES, SHIPPED
from cqels_opt.errors import InputError, QueryError
from cqels_opt.query.durations import milliseconds
from cqels_opt.query.mistakes import nearest
from cqels_opt.windows.batch_size import BatchSize

TABLES = {
    "": ("title", "about", "seed", "contenders", "only", "repetitions", "limit"),
    "stream": ("rates", "seconds", "window", "batch", "warm_up"),
}
"""The keys of a scenario and of its table ``stream``; the keys of other tables are free."""
FREE = ("data", "queries", "vary", "sql", "options", "quick")


SECOND = BatchSize(duration=1000)


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream of a scenario.

    ``rates`` are in elements per second (None: the data have their own times), for ``seconds`` after a first batch of ``window``
    seconds, which fills a window of that length. The first ``warm_up`` batches do not count.
    """

    rates: tuple[float | None, ...] = (None,)
    seconds: int = 10
    window: int = 0
    batch: BatchSize = SECOND
    warm_up: int = 3

    def batches(self, rate: float | None) -> BatchSize:
        """The sizes of the first batch, and of the others."""
        return replace(self.batch, first=round((rate or 0) * self.window) if self.batch.count else 1000 * self.window)


@dataclass(frozen=True, slots=True)
class Case:
    """One combination of the varied parameters: the rate and parameters of the data."""

    rate: float | None
    varied: Mapping[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """For tables and JSON."""
        return {**({"rate": self.rate} if self.rate is not None else {}), **self.varied}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A declared scenario. ``sql`` is the folder of the queries as SQL, ``options`` are those of contenders, by full name."""

    name: str
    title: str
    about: str
    seed: int
    contenders: tuple[str, ...]
    queries: Mapping[str, Path]
    data: Mapping[str, Any]
    stream: Stream
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    sql: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    repetitions: int = 1
    limit: float = 120.0
    folder: Path = Path()

    @property
    def files(self) -> list[Path]:
        """The files that it names: its queries, also as SQL, and the module of a generator."""
        module = str(self.data["generator"]).rpartition(":")[0]
        sql = sorted(self.sql.glob("*.sql")) if self.sql is not None else []
        return [*self.queries.values(), *sql, *([self.folder / module] if module else [])]

    def cases(self) -> Iterator[Case]:
        """Each rate with each combination of the varied parameters."""
        for rate in self.stream.rates:
            for values in product(*self.vary.values()):
                yield Case(rate, dict(zip(self.vary, values)))


def shipped() -> dict[str, Path]:
    """The files of the scenarios in the package, by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.toml"))}


def read(path: Path, quick: bool = False) -> Scenario:
    """A scenario from its file; ``quick`` applies its table ``quick``. InputError names the file and the key."""
    found = toml_of(path)
    reader = _Reader(path, _merged(found, found.get("quick", {})) if quick else found)
    reader.check_keys()
    return reader.scenario()


def _merged(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A table updated by another one, recursively."""
    both = {k: _merged(base[k], v) if isinstance(v, dict) and isinstance(base.get(k), dict) else v for k, v in other.items()}
    return {**base, **both}


class _Reader:
    """Typed reading of one file; errors name the key."""

    def __init__(self, path: Path, found: Mapping[str, Any]) -> None:
        self.path, self.found = path, found

    def fail(self, key: str, message: str) -> InputError:
        return InputError(f"{self.path}: {key}: {message}")

    def check_keys(self) -> None:
        known = (*TABLES[""], "stream", *FREE)
        for key in self.found:
            if key not in known:
                raise self.fail(key, f"no key of a scenario{nearest(key, known)}; there are {', '.join(known)}")
        for key in self.table("stream"):
            if key not in TABLES["stream"]:
                raise self.fail(f"stream.{key}", f"there are {', '.join(TABLES['stream'])}")
        for name, options in self.table("options").items():
            if not isinstance(options, dict):
                raise self.fail(f"options.{name}", f"must be a table: [options.{name}]")
            try:
                check_options({f"{name}.{key}": value for key, value in options.items()})
            except InputError as error:
                raise InputError(f"{self.path}: {error}") from error

    def table(self, key: str) -> Mapping[str, Any]:
        found = self.found.get(key, {})
        if not isinstance(found, dict):
            raise self.fail(key, f"must be a table: [{key}]")
        return found

    def value(self, key: str, kind: type | tuple[type, ...], default: Any, what: str) -> Any:
        table, _, name = key.rpartition(".")
        found = (self.table(table) if table else self.found).get(name, default)
        if not isinstance(found, kind) or isinstance(found, bool):
            raise self.fail(key, f"must be {what}, not {found!r}")
        return found

    def positive(self, key: str, default: float) -> float:
        found = self.value(key, (int, float), default, "a positive number")
        if found <= 0:
            raise self.fail(key, f"must be positive, not {found!r}")
        return float(found)

    def whole(self, key: str, default: int, least: int) -> int:
        found = self.value(key, int, default, "a whole number")
        if found < least:
            raise self.fail(key, f"must be at least {least}, not {found}")
        return int(found)

    def strings(self, key: str) -> tuple[str, ...]:
        found = self.value(key, list, [], "a list of names")
        if not all(isinstance(name, str) for name in found):
            raise self.fail(key, "must be a list of names in quotes")
        return tuple(found)

    def scenario(self) -> Scenario:
        contenders = self.strings("contenders")
        if not contenders:
            raise self.fail("contenders", 'must name some: contenders = ["adaptive", "static"]')
        data = self.table("data")
        if not isinstance(data.get("generator"), str):
            raise self.fail("data.generator", 'must name what makes the data: generator = "social", or a file "mine.py:make"')
        for key, values in self.table("vary").items():
            if not isinstance(values, list) or not values:
                raise self.fail(f"vary.{key}", "must be a list of values")
        return Scenario(
            self.path.stem,
            self.value("title", str, self.path.stem, "a text"),
            self.value("about", str, "", "a text"),
            self.whole("seed", 1, 0),
            contenders,
            self.queries(),
            data,
            self.stream(),
            self.table("vary"),
            self.place("sql.folder") if "sql" in self.found else None,
            self.table("options"),
            self.whole("repetitions", 1, 1),
            self.positive("limit", 120.0),
            self.path.resolve().parent,
        )

    def queries(self) -> dict[str, Path]:
        found = {name: self.place(f"queries.{name}") for name in self.table("queries")}
        if not found:
            raise self.fail("queries", 'must name some: [queries] and Q1 = "q1.rq"')
        for name, path in found.items():
            if not path.is_file():
                raise self.fail(f"queries.{name}", f"there is no file {path}")
        only = self.strings("only")
        for name in only:
            if name not in found:
                raise self.fail("only", f"there is no query {name!r}{nearest(name, found)}; there are {', '.join(found)}")
        return {name: path for name, path in found.items() if not only or name in only}

    def place(self, key: str) -> Path:
        """A path relative to the scenario's file; ``report:q1.rq`` is in bench/report_queries, ``shipped:x`` in the package."""
        text = str(self.value(key, str, "", "a path"))
        for prefix, folder in (("report:", QUERIES), ("shipped:", SHIPPED.parent)):
            if text.startswith(prefix):
                return folder / text.removeprefix(prefix)
        return self.path.resolve().parent / text

    def stream(self) -> Stream:
        rates = self.value("stream.rates", list, [], "a list of elements per second")
        if any(not isinstance(rate, int | float) or isinstance(rate, bool) or rate <= 0 for rate in rates):
            raise self.fail("stream.rates", f"must be positive numbers of elements per second, not {rates!r}")
        return Stream(
            tuple(rates) or (None,),
            self.whole("stream.seconds", 10, 1),
            self.whole("stream.window", 0, 0),
            self.batch(),
            self.whole("stream.warm_up", 3, 0),
        )

    def batch(self) -> BatchSize:
        text = self.value("stream.batch", (str, int), "1s", 'a number of elements, or a time such as "1s"')
        if isinstance(text, int):
            return BatchSize(count=self.whole("stream.batch", 0, 1))
        try:
            duration = milliseconds(text)
        except (ValueError, QueryError) as error:
            raise self.fail("stream.batch", str(error)) from error
        if not duration:
            raise self.fail("stream.batch", f"must be positive, not {text!r}")
        return BatchSize(duration=duration)
