"""The options of the commands: frozen dataclasses, which `grammar.py` makes from the command line.

Times and durations are integer milliseconds. Paths are as typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.windows.batch_size import BatchSize

if TYPE_CHECKING:
    from cqels_opt.windows.instants import Policy

OnError: TypeAlias = Literal["fail", "skip"]

PLANS = ("adaptive", "first", "static", "worst", "spark")
COST_MODELS = ("default", "paper")
CONSTANTS = ("measured", "default")
FILTERS = ("cost", "early", "late", "H1", "H2", "H3", "H4")
LOCAL_JOINS = ("auto", "probe")
JOINS = (*LOCAL_JOINS, "partitioned", "shuffle-hash", "sort-merge", "broadcast", "spark")
TIME_PREDICATE = "http://www.w3.org/ns/prov#generatedAtTime"


class Address(NamedTuple):
    """The address of a page."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    """A query, its inputs and run options: the common options of `run`, `explain` and `verify`.

    ``report`` and ``t0`` are by window name, ``""`` for all windows. None means that the profile, the dialect or the kind of
    input decides. ``fixed`` is the plans' text of ``--plan fixed:…``; ``plan`` is then ``"fixed"``. ``out`` None is standard
    output; with ``out_folder`` it is a folder with Parquet files per batch; ``out_topic`` replaces it. ``topics`` are streams in
    addition to ``streams``. ``more`` are further queries of the same run; ``instances`` is the file with the constants of a
    query's instances. ``base`` resolves relative IRIs of the queries. ``text`` is the
    text of a query that is not in a file; ``query`` is then its name.
    ``conf`` are settings of Spark; ``format`` and ``limit`` are of answers on standard output.
    """

    query: Path
    streams: tuple[tuple[str, Path], ...] = ()
    static: tuple[Path, ...] = ()
    graphs: tuple[tuple[str, Path], ...] = ()
    store: Path | str | None = None
    dialect: str = "auto"
    base: str | None = None
    profile: str | None = None
    report: Mapping[str, Policy] = field(default_factory=dict)
    output_operator: str | None = None
    duplicates: Literal["set", "bag"] | None = None
    bounds: Literal["open-closed", "closed-open"] | None = None
    t0: Mapping[str, int] = field(default_factory=dict)
    lateness: int = 0
    idle_timeout: int | None = None
    max_ahead: int | None = None
    eager: bool = False
    drain: bool = False
    on_error: OnError | None = None
    time_predicate: str = TIME_PREDICATE
    plan: Literal["adaptive", "first", "static", "worst", "spark", "fixed"] = "adaptive"
    fixed: str | None = None
    joins: str = "auto"
    cost_model: str = "default"
    constants: Literal["measured", "default"] = "measured"
    filters: Literal["cost", "early", "late", "H1", "H2", "H3", "H4"] = "cost"
    sub_result_bytes: int | None = None
    batch: BatchSize | None = None
    batch_bytes: int | None = None
    checkpoint: Path | str | None = None
    continue_changed: bool = False
    trace: Path | None = None
    out: Path | None = None
    out_folder: bool = False
    follow: bool = False
    ui: Address | None = None
    engine: Literal["spark", "local"] = "spark"
    processes: int | None = None
    master: str | None = None
    debug: bool = False
    more: tuple[Path, ...] = ()
    instances: Path | None = None
    topics: tuple[tuple[str, KafkaTopic], ...] = ()
    out_topic: KafkaTopic | None = None
    packages: str | None = None
    max_rows: int | None = None
    max_time: int | None = None
    max_state: int | None = None
    max_memory: int | None = None
    max_bound: int | None = None
    conf: tuple[tuple[str, str], ...] = ()
    format: Literal["json", "table", "csv", "nt"] = "json"
    limit: int | None = None
    quiet: bool = False
    verbose: bool = False
    text: str | None = None

    @property
    def queries(self) -> tuple[Path, ...]:
        """The files of all queries of the run."""
        return (self.query, *self.more)


def without_outputs(options: RunOptions, answers: Path) -> RunOptions:
    """The options of a run that touches neither the checkpoint, the trace nor the answers of another one; ``answers`` gets its own."""
    return replace(
        options, out=answers, out_folder=False, out_topic=None, trace=None, checkpoint=None, continue_changed=False, limit=None
    )


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """`explain`: its output format, and whether to show all retained alternatives.

    ``void`` is a description of the static data, which need not exist yet. ``analyze`` runs the query and shows the last micro-batch, that
    with the number ``at``, or each ``every``-th.
    """

    run: RunOptions
    format: Literal["text", "json", "dot"] = "text"
    all: bool = False
    void: Path | None = None
    analyze: bool = False
    at: int | None = None
    every: int | None = None

    @property
    def has_data(self) -> bool:
        """Whether static data are given, whose counts are exact."""
        return bool(self.run.static or self.run.graphs or self.run.store)


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """`check`: queries, which are parsed and described without data."""

    run: RunOptions


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """`convert`: queries, and the dialect to print them in."""

    run: RunOptions
    to: str


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`load`: files for the default graph and for named graphs, and the target store."""

    store: Path | str
    paths: tuple[Path, ...] = ()
    graphs: tuple[tuple[str, Path], ...] = ()
    on_error: OnError = "fail"
    master: str | None = None
    engine: Literal["spark", "local"] = "spark"
    debug: bool = False


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """`load --update`: files to add, files to remove, files to add to named graphs, and the store."""

    store: Path | str
    add: tuple[Path, ...] = ()
    remove: tuple[Path, ...] = ()
    graphs: tuple[tuple[str, Path], ...] = ()
    on_error: OnError = "fail"
    debug: bool = False


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """`store`: the action (``info``, ``check`` or ``void``) and the store."""

    action: str
    store: Path | str
    debug: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """`checkpoint check`: the folder, and the answers and the trace of its run."""

    action: str
    checkpoint: Path | str
    out: Path | None = None
    trace: Path | None = None
    debug: bool = False


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`gateway`: the source of messages, the target folder, the payload, and the interval of files in ms."""

    url: str
    folder: Path
    payload: str = "json"
    every: int = 1000
    refused: Path | None = None
    client: str = ""
    send: str | None = None
    time_predicate: str = TIME_PREDICATE
    debug: bool = False


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """`calibrate`: whether to only show the constants in use, and whether to measure Spark too, on which master."""

    show: bool = False
    spark: bool = True
    master: str | None = None
    debug: bool = False


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """`trace`: the file, the page to write, whether to follow the growing file, the address to serve it at, and a trace to compare with."""

    file: Path
    html: Path | None = None
    follow: bool = False
    ui: Address | None = None
    debug: bool = False
    compare: Path | None = None


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """`bench`: scenarios by name or file, small scale with ``quick``, contenders, and output files.

    ``contenders`` are files, or names of entry points. Without ``spark`` contenders that need it are omitted. Reports stored in
    ``keep`` are reused. ``jobs`` (none: all) and the folder ``data`` are for the study ``adaptive-join``; ``full``, ``workloads`` and
    ``rivals`` (none: all) are for ``arena``.
    """

    scenarios: tuple[str, ...] = ()
    list: bool = False
    quick: bool = False
    json: Path | None = None
    html: Path | None = None
    page: Path | None = None
    contenders: tuple[Path | str, ...] = ()
    spark: bool = True
    keep: Path | None = None
    jobs: tuple[str, ...] = ()
    data: Path | None = None
    full: bool = False
    workloads: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    debug: bool = False


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`demo`: the number of days from 7 February 2013 (None: all of 2013), the folder for data, answers, traces and the page, and the
    engine, ``local`` or ``spark``.
    """

    days: int | None = 28
    out: Path = Path("demo-out")
    engine: str = "local"
    verbose: bool = False
    debug: bool = False
