"""The engine and its queries, without Spark. The rooms below define all semantics; this module processes no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.compiler.registration import Do
from cqels_opt.errors import InputError
from cqels_opt.local import jobs
from cqels_opt.local.jobs import Files, LocalOptions, TableFunction
from cqels_opt.local.loading import compiled, loaded
from cqels_opt.local.run import LocalRun
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.function_sink import FunctionSink
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.query_registry import PathLike, QueryRegistry
from cqels_opt.runtime.registered_query import RegisteredQuery, catalog_of
from cqels_opt.runtime.start_options import keywords_of
from cqels_opt.state.remote_checkpoint import checkpoint_folder


@dataclass(frozen=True, slots=True, repr=False)
class CompiledQuery(RegisteredQuery):
    """A query that a local engine has registered; :class:`cqels_opt.CompiledQuery` describes its properties."""

    @keywords_of(LocalOptions, jobs.start)
    def start(
        self,
        streams: Mapping[str, Files],
        sink: TableFunction | PathLike,
        checkpoint: PathLike,
        trace: PathLike | None = None,
        **options: Unpack[LocalOptions],
    ) -> LocalRun:
        """Starts the query as a run of its own; see :meth:`Engine.start` for the parameters."""
        folder = checkpoint_folder(checkpoint, "checkpoint")
        return jobs.start(self.engine, catalog_of([self], folder), folder, streams, sink, trace, **options)


class Engine(QueryRegistry[CompiledQuery]):
    """Continuous queries over RDF streams and static Linked Open Data in this process: no Spark, no Java.

    ``static`` is a file (or several) for the default graph, ``graphs`` maps the IRI of each named graph to a file (or several), ``store``
    is a store that ``cqels-opt load`` wrote; files are added to a copy of it, which shares what does not change. ``folder`` stores the
    output of registration, by default a temporary folder.
    """

    def __init__(
        self,
        static: PathLike | Sequence[PathLike] | None = None,
        graphs: Mapping[str, PathLike | Sequence[PathLike]] | None = None,
        store: PathLike | None = None,
        folder: PathLike | None = None,
        on_error: Literal["fail", "skip"] = "fail",
    ) -> None:
        super().__init__(loaded, static, graphs, store, folder, on_error)

    def _compiling(self, store: Path | str) -> Do:
        return compiled

    def _registered(self, member: Member) -> CompiledQuery:
        return CompiledQuery(self, member)

    @keywords_of(LocalOptions, jobs.start)
    def start(
        self,
        streams: Mapping[str, Files],
        sink: TableFunction | PathLike,
        checkpoint: PathLike,
        trace: PathLike | None = None,
        **options: Unpack[LocalOptions],
    ) -> LocalRun:
        """Starts all registered queries in one run, in a thread of this process; the rows have a column ``query``.

        ``streams`` maps stream IRIs to files, which are replayed to their end, or to folders, whose new files are followed.
        ``sink`` is ``f(table, batch_id)`` with a ``pyarrow.Table`` of the columns that the DataFrame of :class:`cqels_opt.Engine` has,
        which may be called twice for a batch; a file ``NAME.jsonl``, which gets each answer exactly once as a line; or a folder,
        which gets each batch's answers exactly once as Parquet. ``checkpoint`` is the folder, or the URI, from which a second start
        resumes, here or, with ``cqels-opt run``, on Spark. The other keywords are those of :class:`LocalOptions`; durations are
        texts such as ``"10s"`` or ``"1 hour"``, or whole milliseconds.
        """
        if not self.queries:
            raise InputError("no query is registered")
        folder = checkpoint_folder(checkpoint, "checkpoint")
        return jobs.start(self, catalog_of(self.queries, folder), folder, streams, sink, trace, self._register_and_add, **options)

    def _check_sink(self, sink: Sink, query: CompiledQuery, others: Sequence[CompiledProgram]) -> None:
        if isinstance(sink, FunctionSink):
            sink.check([query.program, *others])
