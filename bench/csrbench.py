"""CSRBench (Dell'Aglio et al., ISWC 2013): its seven queries in three languages, checked at every t0 and against real engines.

An answer is correct if it is the answer for *some* t0 (``papers/rsp-ql-2014.txt``, Definition 25). The engine, where its windows
have a t0, runs with each t0 that the slide allows, in steps of the data's second, and the independent evaluation verifies it. The
first t0 is the window's length before the first element, so that the first windows are partially filled, as in the real engines.
The answers of the real engines are then compared with ours: at their own instants, and with all instants shifted by the same
number of seconds, because their clocks did not start with the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.csrbench_answers import SECOND, Compared, by_time, compare_cqels, compare_windows, recorded
from cqels_opt.bench.local import Prepared, write_elements
from cqels_opt.bench.real_data import real_data
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.w3c.results import read_quads
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.dialect_profile import query_semantics, with_window_semantics
from cqels_opt.errors import RunError
from cqels_opt.lod.build import build_store
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.query.algebra import Query
from cqels_opt.query.dialects.profiles import find_profile
from cqels_opt.query.parser import parse
from cqels_opt.verify import Answers, Element, Inputs, Options, Verdict, judge, read_answers
from cqels_opt.verify.model import bare
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

QUERIES = Path(__file__).parent / "csrbench_queries"
STREAM = "http://ex.org/streams/csrbench"
NUMBERS = range(1, 8)
Language = Literal["rspql", "csparql", "cqels"]
LANGUAGES: tuple[Language, ...] = ("rspql", "csparql", "cqels")
POLICIES = {"rspql": "wc", "csparql": "wc,nc", "cqels": "cc", "cqels-1.x": "ea"}
"""The report policies of the profiles, in the notation of the independent evaluation."""
ENGINE_NAMES = ("csparql", "sparqlstream", "cqels")
HEADS = ("query", "engine", "answers", "rows", "as ours", "moved", "as ours", "correct", "why")
ENGINES = "What the real engines answered: parts of their answers that are ours, at their instants and with all instants moved"


@dataclass(frozen=True, slots=True)
class Run:
    """One query with one t0 (milliseconds; None: its windows have none): its answers and their verdict."""

    language: Language
    number: int
    t0: int | None
    answers: Answers
    verdict: Verdict


def elements(folder: Path) -> list[Element]:
    """The stream: file k is one graph at k seconds."""
    found = []
    for file in sorted((folder / "data").glob("data_*.ttl")):
        at = int(file.stem.removeprefix("data_")) * SECOND
        triples = tuple((s, p, o) for s, p, o, _ in read_quads(file))
        found.append(Element(at, triples, f"<{STREAM}/{file.stem}>"))
    return found


def read_query(language: Language, number: int) -> Query:
    """A query of the benchmark in one of the languages."""
    return parse((QUERIES / language / f"q{number}.rq").read_text(encoding="utf-8"), language, f"q{number}.rq")


def origins(query: Query) -> list[int]:
    """Every t0 that the slide of the query's window allows (``Z`` of the paper's oracle); empty for windows without t0."""
    (window,) = query.windows
    return [k * SECOND - window.width for k in range(window.slide // SECOND)]


def run(query: Query, t0: int | None, stream: list[Element], file: Path, folder: Path, profile: str | None = None) -> Run:
    """The engine's answers to a query with their verdict; its input drains. ``profile``: None is that of its language."""
    language: Any = query.dialect
    meant = query_semantics(query, profile, t0=None if t0 is None else {"": t0})
    query, known = with_window_semantics(query, profile), find_profile(profile or language)
    stream_name = bare(query.windows[0].stream)
    folder.mkdir()
    build_store(folder / "store", [], durable=False)
    program = Compiler(query, str(folder / "store"), folder, meant.report, meant.duplicates == "set").compile("q", meant.operator)
    prepared = Prepared(
        "q", program, cut([ReplaySource(f"<{stream_name}>", (file,))], folder / "replay", BatchSize(count=8)), folder
    )
    out = folder / "answers.jsonl"
    prepared.finish(folder / "state", PlannerOptions("first"), drain=True, out=out)
    answers = read_answers(out)
    options = Options(
        policy=POLICIES[profile or language],
        operator=known.operator if query.operator is None else query.operator,
        duplicates=known.duplicates,
        t0=t0 or 0,
        drain=True,
    )
    return Run(language, 0, t0, answers, judge(query, Inputs({stream_name: stream}), options, answers))


def runs(
    stream: list[Element], languages: tuple[Language, ...] = LANGUAGES, quick: bool = False, numbers: Iterable[int] = NUMBERS
) -> Iterator[Run]:
    """Every query in every language at every t0; ``quick``: at the first and the last t0."""
    with scratch_folder() as scratch:
        file = scratch / "stream.ndjson"
        write_elements(file, stream)
        for language in languages:
            for number in numbers:
                query = read_query(language, number)
                every: list[int | None] = [*origins(query)] or [None]
                for t0 in sorted({every[0] or 0, every[-1] or 0}) if quick and every != [None] else every:
                    found = run(query, t0, stream, file, scratch / f"{language}{number}_{t0}")
                    yield Run(language, number, t0, found.answers, found.verdict)


def study(quick: bool) -> dict[str, Any]:
    """All queries at all t0, each verified, and the recorded answers of the real engines compared with ours (quick: of CQELS alone)."""
    folder = real_data("csrbench")
    found = list(runs(elements(folder), quick=quick))
    wrong = [r for r in found if not r.verdict.equal]
    if wrong:
        raise RunError(f"{wrong[0].language} q{wrong[0].number}, t0 {wrong[0].t0}: {wrong[0].verdict.text(3)}")
    checked = [
        {
            "query": number,
            "language": language,
            "t0": len(matching := [r for r in found if (r.language, r.number) == (language, number)]),
            "instants": sum(r.verdict.instants for r in matching),
            "rows": sum(r.verdict.rows for r in matching),
        }
        for number in NUMBERS
        for language in LANGUAGES
    ]
    engines = ("cqels",) if quick else ENGINE_NAMES  # the others need every t0
    return {"results": checked, "engines": [asdict(c) for c in compared(folder, found, engines)]}


def compared(folder: Path, found: list[Run], engines: tuple[str, ...] = ENGINE_NAMES) -> list[Compared]:
    """The answers of each real engine compared with ours at all t0."""
    results = []
    for number in NUMBERS:
        (window,) = read_query("csparql", number).windows
        windows = _by_closing(r for r in found if (r.language, r.number) == ("csparql", number))
        for engine in engines:
            if engine == "cqels":
                matching = next(r for r in found if (r.language, r.number) == ("cqels", number))
                results.append(compare_cqels(number, recorded(folder, engine, number), matching.answers))
            else:
                results.append(compare_windows(engine, number, recorded(folder, engine, number), windows, window.slide))
    return results


def _by_closing(found: Iterable[Run]) -> dict[int, Answers]:
    """The rows of the window that closes at each instant; its content is the same for every t0."""
    every: Answers = Counter()
    for one in found:
        every |= one.answers
    return by_time(every)


def show(found: dict[str, Any]) -> None:
    """Prints the verification, and the table of the real engines."""
    shown = table("query", "language", "t0s", "instants", "rows", title="Equal to the independent evaluation at every t0")
    for row in found["results"]:
        shown.add_row(*(str(row[name]) for name in ("query", "language", "t0", "instants", "rows")))
    console().print(shown)
    if found["engines"]:
        engines = table(*HEADS, title=ENGINES)
        for row in found["engines"]:
            engines.add_row(*cells(row))
        console().print(engines)


def cells(row: Mapping[str, Any]) -> list[str]:
    """The recorded answers of an engine to a query, as a row of a table with the heads :data:`HEADS`."""
    moved = "" if row["moved"] is None else f"{row['moved']:+d} s"
    at_best = "" if row["moved"] is None else f"{row['equal_moved']}/{row['answers']}"
    first = row["query"], row["engine"], row["answers"], row["rows"], f"{row['equal']}/{row['answers']}"
    return [*map(str, first), moved, at_best, "yes" if row["correct"] else "no", row["why"]]
