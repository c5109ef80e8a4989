"""The records that register queries, and the compiled programs of queries."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa

from cqels_opt import plugins
from cqels_opt.compiler.block_builder import PAGE
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.dialect_profile import parse_policy, query_semantics, with_window_semantics
from cqels_opt.compiler.multi_query_sharing import Member, Record, SharedProgram
from cqels_opt.compiler.query_functions import called_functions, with_versions
from cqels_opt.compiler.query_terms import NOTHING_KNOWN, KnownIds
from cqels_opt.compiler.static_subpatterns import BYTES_BUDGET
from cqels_opt.compiler.view_maintenance import ViewMaintenance
from cqels_opt.errors import InputError, check_choice
from cqels_opt.operators.compiled_query import CompiledProgram, Instances
from cqels_opt.operators.instances import NAMES, write_names
from cqels_opt.operators.query_forms import answer_variables
from cqels_opt.operators.stream_operators import OPERATORS
from cqels_opt.operators.term_table import Page
from cqels_opt.operators.typed_columns import column_types
from cqels_opt.query.texts import Reader
from cqels_opt.rdf.times import GREATEST
from cqels_opt.state import worker_cache
from cqels_opt.storage import checksum, disk, sealed_files
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.instants import Policy
from cqels_opt.windows.intervals import FOREVER

VERSIONS = 3  # of a template's relations that are kept: a batch may be repeated

Do: TypeAlias = Callable[[Callable[[], CompiledProgram]], CompiledProgram]
"""Runs a compilation: in this process, or on an executor."""


_READER = Reader()


_NAME: Final = re.compile(r"(?!\.)[^/\\\x00-\x1f]{1,100}")


class QueryOptions(TypedDict, total=False):
    """The keywords of ``Engine.register``, which ``Engine.adaptive`` and ``StreamRun.add`` take as well."""

    id: str | None
    """The query's name; by default q1, q2, …"""
    dialect: str
    """``auto``, ``cqels``, ``rspql``, ``csparql``, ``sparqlstream`` or ``streaming-sparql``."""
    profile: str | None
    """The dialect, or ``cqels-1.x``, whose defaults decide what the query's text leaves open; by default its own dialect."""
    report: str | Mapping[str, Policy | str] | None
    """When windows report: some of ``cc``, ``ea``, ``wc``, ``nc`` and ``p:10s``, separated by commas; or that by the window's name."""
    output_operator: str | None
    """``istream``, ``dstream`` or ``rstream``."""
    duplicates: Literal["set", "bag"] | None
    """Whether an answer that follows several times is one row or several; by default what the profile says."""
    bounds: Literal["open-closed", "closed-open"] | None
    """Which end belongs to a window with a range and a step."""
    t0: Mapping[str, int] | None
    """The first opening (ms since the epoch) by the window's name, ``""`` for all windows."""
    file: str
    """The name of the query's text in error messages."""
    types: Mapping[str, str] | None
    """The Spark SQL types of variables as columns of DataFrames and Parquet (docs/answers.md); others are N-Triples terms."""
    sub_result_bytes: int
    """Limits the materialized views of static sub-patterns of each block of joins, at registration and during runs."""


def check_name(name: str, where: str = "") -> None:
    """InputError, which begins with ``where``, if a name is not valid for a query."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = name[:80] if isinstance(name, str) else name
        raise InputError(
            f"{where}{shown!r} is not a valid name of a query: names of files contain it, so it has no / and does not start with a dot"
        )


def record_of(
    text: str,
    id: str,
    dialect: str = "auto",
    profile: str | None = None,
    report: str | Mapping[str, Policy | str] | None = None,
    output_operator: str | None = None,
    duplicates: Literal["set", "bag"] | None = None,
    bounds: Literal["open-closed", "closed-open"] | None = None,
    t0: Mapping[str, int] | None = None,
    file: str = "query",
    sub_result_bytes: int = BYTES_BUDGET,
    types: Mapping[str, str] | None = None,
) -> Record:
    """The registration of a query, as JSON. A query that is added during a run is written to the checkpoint as its record.

    Raises:
        InputError: an option has no such value.
    """
    if duplicates is not None:
        check_choice("duplicates", duplicates, ("set", "bag"))
    if bounds is not None:
        check_choice("bounds", bounds, ("open-closed", "closed-open"))
    if output_operator is not None and output_operator not in OPERATORS:
        check_choice("output_operator", output_operator, (*OPERATORS, *plugins.names("stream_operators")))
    if not isinstance(types or {}, Mapping) or not all(isinstance(name, str) for name in (types or {}).values()):
        raise InputError(f'types={types!r}: give the type of a column by its variable, such as {{"n": "int"}}')
    if not isinstance(t0 or {}, Mapping) or not all(isinstance(time, int) for time in (t0 or {}).values()):
        raise InputError(f't0={t0!r}: give milliseconds by the name of a window, such as {{"w": 0}}, or {{"": 0}} for all')
    if any(abs(time) > GREATEST for time in (t0 or {}).values()):
        raise InputError(f"t0={t0!r}: a time is at most 2^53 milliseconds from 1970")
    if not isinstance(sub_result_bytes, int) or sub_result_bytes < 0:
        raise InputError(f"sub_result_bytes={sub_result_bytes!r}: give a number of bytes, at least 0")
    return {
        "id": id,
        "text": text,
        "dialect": dialect,
        "profile": profile,
        "report": {name: _policy_record(policy) for name, policy in _policies(report).items()},
        "output_operator": output_operator,
        "duplicates": duplicates,
        "bounds": bounds,
        "t0": dict(t0 or {}),
        "file": file,
        "sub_result_bytes": sub_result_bytes,
        **({"types": dict(types)} if types else {}),
    }


def _policy_record(policy: Policy) -> dict[str, Any]:
    """As JSON. ``arrival`` is left out where it is False, so that records are equal to those of earlier versions."""
    found = asdict(policy)
    return found if policy.arrival else {name: value for name, value in found.items() if name != "arrival"}


def _policies(report: str | Mapping[str, Policy | str] | None) -> dict[str, Policy]:
    """The report policies by window name, "" for all."""
    given = {"": report} if isinstance(report, str) else {} if report is None else report
    if not isinstance(given, Mapping):
        raise InputError(f'report={report!r}: give policies such as "wc,nc", or {{"w": "p:10s"}} by the window\'s name')
    for name, policy in given.items():
        if not isinstance(name, str) or not isinstance(policy, str | Policy):
            raise InputError(f'report={{{name!r}: {policy!r}}}: give policies by the name of a window, such as {{"w": "wc,nc"}}')
    return {name: parse_policy(policy) if isinstance(policy, str) else policy for name, policy in given.items()}


def member_of(record: Record) -> Member:
    """The query of a record. Raises QueryError with line and column."""
    query, outlined = _READER.read(record["text"], record["dialect"], record["file"])
    query = with_window_semantics(query, record["profile"], record["bounds"])
    query = replace(query, body=with_versions(query.body))
    if outlined is not None:
        common = replace(outlined.query, windows=query.windows, body=with_versions(outlined.query.body))
        outlined = replace(outlined, query=common)
    report = {name: Policy(**policy) for name, policy in record["report"].items()}
    meant = query_semantics(query, record["profile"], report, record["output_operator"], record["duplicates"], record["t0"])
    types = column_types(record.get("types", {}), answer_variables(query))
    return Member(record["id"], query, meant, outlined, record["sub_result_bytes"], record, types)


class Programs:
    """The programs over one version of a static store, each compiled once. ``folder`` takes the files that compilation writes."""

    def __init__(self, store: Path | str, folder: Path, do: Do = lambda work: work()) -> None:
        self.store, self.folder, self._do = store, folder, do
        self._lock = threading.Lock()
        self._made: dict[str, CompiledProgram] = {}
        self._templates: dict[tuple[str, str], list[str]] = {}  # by run and name, the keys of the programs of a template
        self.earlier: Programs | None = None
        self.known = NOTHING_KNOWN

    def over(self, place: Path | str, owner: str, earlier: Programs | None = None) -> Programs:
        """The same programs over another version of the store, for one run. ``earlier``: those over the previous version."""
        if Path(place) == Path(self.store):
            return self
        found = Programs(place, self.folder / "versions" / owner / Path(place).name, self._do)
        found.earlier, found.known = earlier, self.known
        return found

    def of(self, unit: SharedProgram, owner: str = "") -> CompiledProgram:
        """The compiled program. That of a template is for one run, ``owner``, whose queries change."""
        key = _key(unit, owner)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._compiled(unit, key, owner)
                if unit.template is not None:
                    self._forget(self._templates.setdefault((owner, unit.id), []), key)
            return self._made[key]

    def clashes(self, displaced: Sequence[tuple[str, int]], pages: Sequence[Path]) -> bool:
        """Whether a run has another id for a constant of a program, or uses the id of a constant for another term."""
        second, constants = dict(displaced), self.known.constants
        ids, texts = np.array(list(constants), np.int64), pa.array(list(constants.values()), pa.string())
        moved = any(second.get(text, term_id) != term_id for term_id, text in constants.items())
        return moved or any(page.others(ids, texts).any() for page in worker_cache.pages(pages))

    def apart(self, owner: str, displaced: Sequence[tuple[str, int]], pages: Sequence[Path]) -> Programs:
        """The same programs for one run, with the term ids of this run."""
        found = Programs(self.store, self.folder / "apart" / owner / self.mark, self._do)
        found.earlier, found.known = self.earlier, KnownIds(tuple(displaced), {}, tuple(map(str, pages)))
        return found

    def see(self, pages: Sequence[Path]) -> None:
        """Sets the pages of the terms of the run that these programs are for: earlier ones are deleted as the windows move on."""
        self.known = replace(self.known, pages=tuple(map(str, pages)))

    def page(self, unit: SharedProgram, state: Path, owner: str = "") -> SlotFile | None:
        """The page of the terms that compilation added, copied to a state folder: a file without expiry."""
        page = self.folder / _key(unit, owner) / PAGE
        if not page.exists():
            return None
        disk.make_folder(state)
        path = f"terms-{_key(unit)}-{self.mark}.arrow"
        sealed_files.copy(page, state / path)  # readers of the previous file keep it mapped
        return SlotFile("terms", path, greatest=int(FOREVER))

    @property
    def mark(self) -> str:
        """Distinguishes the files of this version of the store."""
        return checksum.text_digest(Path(self.store).name)[:8]

    def _compiled(self, unit: SharedProgram, key: str, owner: str) -> CompiledProgram:
        folder = self.folder / key
        disk.make_folder(folder)
        first, instances, query = unit.first, None, unit.query
        if unit.template is not None:
            write_names(folder / NAMES, {number: member.id for number, member in unit.members})
            instances = Instances(str(folder / NAMES), len(unit.members), unit.since, unit.members[-1][0])

        known = self.known
        store, shared = str(self.store), self.folder / "relations" if unit.template is None else None
        before = self.earlier
        earlier = None if before is None else (before.store, before.folder / key)

        def work() -> CompiledProgram:
            report, as_set = first.meaning.report, first.meaning.duplicates == "set"
            maintenance = None if earlier is None else ViewMaintenance.read(*earlier)
            compiler = Compiler(
                query, store, folder, report, as_set, first.budget, shared=shared, maintenance=maintenance, known=known
            )
            return replace(compiler.compile(unit.id, first.meaning.operator, instances), types=first.types)

        program = self._do(work)
        constants = dict(known.constants)
        if (folder / PAGE).exists():
            page = Page.open(folder / PAGE)
            constants |= zip(page.ids.tolist(), page.terms.to_pylist())
        self.known = replace(known, displaced=program.scheme.displaced, constants=constants)
        return program

    def forget(self, owner: str, needed: Collection[str]) -> None:
        """Deletes the files of a run over other versions of the store, except the needed versions."""
        for folder in (self.folder / "versions" / owner).glob("*"):
            if folder.name not in needed:
                disk.delete_folder(folder)

    def _forget(self, keys: list[str], key: str) -> None:
        """Adds the program of a template to those before it, and deletes all but the latest."""
        keys.append(key)
        for old in keys[:-VERSIONS]:
            del self._made[old]
            disk.delete_folder(self.folder / old)
        del keys[:-VERSIONS]


def _key(unit: SharedProgram, owner: str = "") -> str:
    """The name of a program's folder, from all that it is compiled from."""
    inputs: list[Any] = [unit.since, [[number, member.record] for number, member in unit.members]]
    if unit.template is not None:  # the same queries have another one where it was made with a query that is not among them
        inputs += [unit.template.holes, owner]
    inputs += [function.version for function in called_functions(unit.first.query.body) if function.version > 1]
    return f"{unit.id}-{checksum.text_digest(json.dumps(inputs))[:12]}"
