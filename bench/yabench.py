"""YABench's window cases (Kolchin, Wetz, Kiesling and Tjoa, ICWE 2016): its three queries over the contents that its oracle defines.

YABench's oracle evaluates a query in SPARQL over the content of each window and compares the rows with those of an engine. The
contents are defined for two report policies, without validity intervals (:func:`contents`). Here pyoxigraph evaluates them, and the
rows have to be those of the engine: of CQELS-QL in the profile ``cqels-1.x`` when an element arrives, of C-SPARQL when a window
closes. The observations are those of YABench's generator SG1, with other random numbers; sizes are those of its published tests.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

import pyoxigraph as ox

from cqels_opt.bench import csrbench
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.csrbench_answers import SECOND, Bag, by_time, ours, plain
from cqels_opt.bench.local import write_elements
from cqels_opt.bench.screen import console, table
from cqels_opt.errors import RunError
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

QUERIES = Path(__file__).parent / "yabench_queries"
HEADS = ("query", "language", "reports when", "range s", "slide s", "stations", "interval s", "instants", "rows")
PROFILES = {"cqels": "cqels-1.x", "csparql": None}
REPORTS = {"cqels": "an element arrives", "csparql": "a window closes"}
_ONTOLOGY, _WEATHER = (
    "http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#",
    "http://knoesis.wright.edu/ssw/ont/weather.owl#",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A published test: a query in a language, its window, and the stream; all lengths in seconds."""

    language: str
    query: int
    range: int
    slide: int
    stations: int
    interval: int
    duration: int


PUBLISHED = (
    Setting("cqels", 1, 60, 60, 10, 60, 300),
    Setting("cqels", 1, 5, 5, 1, 2, 20),
    Setting("cqels", 1, 60, 30, 10, 15, 300),  # the window of the tests of YABench's own classes
    Setting("cqels", 2, 5, 5, 2, 5, 30),
    Setting("cqels", 3, 5, 5, 1, 3, 30),
    Setting("cqels", 3, 5, 5, 10, 1, 30),
    Setting("csparql", 1, 60, 60, 10, 60, 300),
    Setting("csparql", 1, 120, 60, 10, 30, 300),
    Setting("csparql", 1, 120, 60, 10, 120, 300),
    Setting("csparql", 2, 60, 60, 10, 180, 300),
    Setting("csparql", 3, 60, 60, 10, 30, 300),
)


def observations(setting: Setting, seed: int = 1) -> list[Element]:
    """The stream: each station has a phase, and observes at each interval after it; each observation is one graph.

    No time is a whole second: YABench's windows include both ends, so an observation between two of them would be in both.
    """
    rng = random.Random(seed)
    length = setting.interval * SECOND
    phases = [rng.randrange(1, length) for _ in range(setting.stations)]
    times = sorted((t, n) for n, phase in enumerate(phases) for t in range(phase, setting.duration * SECOND + 1, length))
    return [_observed(station, time, rng.randrange(100)) for time, station in times if time % SECOND]


def _observed(station: int, time: int, value: int) -> Element:
    place = "http://knoesis.wright.edu/ssw/"
    observation, data = (
        f"<{place}Observation_AirTemperature_A{station}_{time}>",
        f"<{place}MeasureData_AirTemperature_A{station}_{time}>",
    )
    triples = (
        (observation, f"<{_ONTOLOGY}observedProperty>", f"<{_WEATHER}_AirTemperature>"),
        (observation, f"<{_ONTOLOGY}procedure>", f"<{place}System_A{station}>"),
        (observation, f"<{_ONTOLOGY}result>", data),
        (data, f"<{_ONTOLOGY}floatValue>", f'"{value}.0"^^<http://www.w3.org/2001/XMLSchema#float>'),
        (data, f"<{_ONTOLOGY}uom>", f"<{_WEATHER}fahrenheit>"),
    )
    return Element(time, triples, f"<urn:observation:{station}:{time}>")


def contents(setting: Setting, times: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The instants of YABench's oracle, and the first and the last time of the content of each, in milliseconds, both included.

    When an element arrives, the content begins at the first multiple of the slide whose range reaches the element
    (``WindowFactory.nextWindow(time)``). A window closes at each multiple of the slide (``WindowFactory.nextWindow()``); windows
    without elements are left out.
    """
    length, slide = setting.range * SECOND, setting.slide * SECOND
    if setting.language == "cqels":
        for time in sorted(set(times)):
            yield time, max(0, -((length - time) // slide)) * slide, time
    else:
        for closing in range(slide, max(times) + length + slide, slide):
            if any(closing - length <= time <= closing for time in times):
                yield closing, closing - length, closing


def expected(setting: Setting, stream: Sequence[Element]) -> dict[int, Bag]:
    """The rows of each instant by YABench's oracle; when an element arrives, those that the content before did not have."""
    text = (QUERIES / f"q{setting.query}.rq").read_text(encoding="utf-8")
    found, before = dict[int, Bag](), Bag()
    for instant, first, last in contents(setting, [element.t for element in stream]):
        rows = _rows(text, [element for element in stream if first <= element.t <= last])
        if new := rows - before if setting.language == "cqels" else rows:
            found[instant] = new
        before = rows
    return found


def _rows(text: str, content: Sequence[Element]) -> Bag:
    lines = "\n".join(f"{' '.join(triple)} ." for element in content for triple in element.triples)
    store = ox.Store()
    store.load(lines.encode(), ox.RdfFormat.N_TRIPLES)
    solutions = store.query(text)
    assert isinstance(solutions, ox.QuerySolutions)
    names = [variable.value for variable in solutions.variables]
    return Counter(
        frozenset((name, plain(term.value)) for name, term in zip(names, row) if isinstance(term, ox.NamedNode | ox.Literal))
        for row in solutions
    )


def text_of(setting: Setting) -> str:
    """The query in the language of the setting, with its window."""
    template = Template((QUERIES / setting.language / f"q{setting.query}.rq").read_text(encoding="utf-8"))
    return template.substitute(range=f"{setting.range}s", slide=f"{setting.slide}s")


def run(setting: Setting, folder: Path) -> dict[str, Any]:
    """One test: the engine's rows, judged by the independent evaluation and by YABench's oracle. RunError where one has other rows."""
    stream, query = observations(setting), parse(text_of(setting), setting.language)
    folder.mkdir()
    write_elements(folder / "stream.ndjson", stream)
    first = (setting.slide - setting.range) * SECOND  # a window closes after the first slide
    t0 = first if setting.language == "csparql" else None
    found = csrbench.run(query, t0, stream, folder / "stream.ndjson", folder / "run", PROFILES[setting.language])
    name = f"YABench's query {setting.query} in {setting.language}, range {setting.range} s, slide {setting.slide} s"
    if not found.verdict.equal:
        raise RunError(f"{name}: {found.verdict.text(3)}")
    rows = {time: ours(answers) for time, answers in by_time(found.answers).items()}
    wanted = expected(setting, stream)
    if rows != wanted:
        instant = min(t for t in rows.keys() | wanted.keys() if rows.get(t) != wanted.get(t))
        raise RunError(f"{name}: at {instant} ms the engine has {rows.get(instant)}, YABench's oracle {wanted.get(instant)}")
    return {**asdict(setting), "instants": len(wanted), "rows": sum(bag.total() for bag in wanted.values())}


def study(quick: bool) -> dict[str, Any]:
    """All published tests, each compared at each instant."""
    with scratch_folder() as scratch:
        return {"results": [run(setting, scratch / str(number)) for number, setting in enumerate(PUBLISHED)]}


def show(found: dict[str, Any]) -> None:
    """Prints the table of the tests."""
    shown = table(*HEADS, title="YABench's window cases: rows at each instant equal to its oracle's")
    for row in found["results"]:
        shown.add_row(*cells(row))
    console().print(shown)


def cells(row: Mapping[str, Any]) -> list[str]:
    """A test as a row of a table with the heads :data:`HEADS`."""
    keys = ("range", "slide", "stations", "interval", "instants", "rows")
    return [str(row["query"]), row["language"], REPORTS[row["language"]], *(f"{row[key]:,}" for key in keys)]
