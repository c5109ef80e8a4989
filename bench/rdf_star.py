"""RDF-star compared with reification (``rsp-ql-star-2019`` §8): bytes per element, milliseconds per query, the e-health query.

The elements are like the paper's: n triples, each with one annotation, one of which is the confidence that the query reads. The
paper's Figure 1 is the bytes of an element by n, its Figure 2 the time by n: RDF-star, reification as written, reification with
an optimizer. All contenders must give the same answers as the independent evaluation, or no time is reported.
"""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Prepared, Ran, check_same, load, prepare
from cqels_opt.bench.real_data import real_data
from cqels_opt.bench.screen import console, table
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.errors import InputError, RunError
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.verify import Options, compare, evaluate, read_answers, read_inputs, report
from cqels_opt.verify.evaluate import moments
from cqels_opt.windows.batch_size import BatchSize

QUERIES: Final = Path(__file__).parent / "star_queries"
SEED: Final = 1
SECOND: Final = 1_000  # milliseconds per batch
FULL: Final = 11  # batches until the window of ten seconds is full
STREAM: Final = "http://base/s"
HEAD: Final = (
    "@base <http://base/> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n@prefix prov: <http://www.w3.org/ns/prov#> .\n"
    "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"
)
MINUTES: Final = 12  # of the e-health query's recordings: its windows of ten minutes are full
EARLY: Final = 6  # instants of the e-health query in its first minute
EHEALTH: Final = ("heart", "breathing", "oxygen", "activity", "location")

Annotated = tuple[str, str, str, str, str]
"""A triple, and the predicate and the value of its annotation."""


# ------------------------------------------------------------------ elements
def annotated(number: int, n: int, confidence: float) -> list[Annotated]:
    """The n annotated triples of an element, the one with the confidence last."""
    observation = f"<observation/{number}>"
    others = [(observation, f"<value/{i}>", f"<value/{i}>", "<other/meta>", '"0"^^xsd:float') for i in range(n - 1)]
    return [*others, (observation, "<value>", f"<value/{number % 100}>", "<confidence>", f'"{confidence}"^^xsd:float')]


FORMS: Final[Mapping[str, str]] = {
    "RDF-star": "<< {s} {p} {o} >> {q} {v} .",
    "annotation": "{s} {p} {o} {{| {q} {v} |}} .",
    "reification": "{s} {p} {o} . [] a rdf:Statement ; rdf:subject {s} ; rdf:predicate {p} ; rdf:object {o} ; {q} {v} .",
}
"""An annotated triple in each form; ``annotation`` also asserts the triple (RDF 1.2)."""


def document(form: str, number: int, triples: list[Annotated], t: int) -> str:
    """An element without the prefixes."""
    at = np.datetime_as_string(np.datetime64(t, "ms"))
    body = " ".join(FORMS[form].format(s=s, p=p, o=o, q=q, v=v) for s, p, o, q, v in triples)
    return f'_:g{number} {{ {body} }} _:g{number} prov:generatedAtTime "{at}Z"^^xsd:dateTime .\n'


def sizes(most: int) -> Iterator[dict[str, Any]]:
    """Bytes of an element with its prefixes, plain and compressed, for up to ``most`` annotated triples (Figure 1)."""
    for n in range(1, most + 1):
        texts = {form: (HEAD + document(form, 0, annotated(0, n, 0.8444), 0)).encode() for form in FORMS}
        yield {
            "annotated": n,
            "bytes": {form: len(text) for form, text in texts.items()},
            "compressed": {form: len(gzip.compress(text, mtime=0)) for form, text in texts.items()},
        }


def write(folder: Path, form: str, n: int, seconds: int, rate: int) -> Path:
    """A stream of elements with n annotated triples."""
    confidence = np.random.default_rng(SEED).random(seconds * rate).round(4).tolist()
    path = folder / f"{form}-{n}.trigs"
    with path.open("w", encoding="utf-8") as out:
        out.write(HEAD)
        for number, sure in enumerate(confidence):
            out.write(document(form, number, annotated(number, n, sure), number * SECOND // rate))
    return path


# ------------------------------------------------------------------ times
CONTENDERS: Final = (
    ("RDF-star", "RDF-star", "adaptive"),
    ("RDF-star, as written", "RDF-star", "first"),
    ("reification", "reification", "adaptive"),
    ("reification, as written", "reification", "first"),
)


def times(folder: Path, store: Path, counts: tuple[int, ...], seconds: int, rate: int) -> Iterator[dict[str, Any]]:
    """Milliseconds per batch of a second once the window is full, by annotated triples per element (Figure 2)."""
    for n in counts:
        ready: dict[str, Prepared] = {}
        for form in ("RDF-star", "reification"):
            text = (QUERIES / f"{form.lower()}.rq").read_text(encoding="utf-8")
            streams = {STREAM: write(folder, form, n, seconds, rate)}
            ready[form] = prepare("q", text, store, streams, folder / f"{form}-{n}-run", BatchSize(duration=SECOND))
        runs = [ready[form].run(name, PlannerOptions(mode)) for name, form, mode in CONTENDERS]
        check_same(runs)
        yield {"annotated": n, "answers": runs[0].answers, "milliseconds": {run.name: _median(run) for run in runs}}


def _median(run: Ran) -> dict[str, float]:
    """The medians of the batches with a full window; the very last batch is partial."""
    records = run.records[FULL:-1] or run.records[1:-1]
    return {
        "batch": statistics.median(sum((r.ms.ingest, r.ms.statistics, r.ms.optimize, r.ms.execute)) for r in records),
        "ingest": statistics.median(r.ms.ingest for r in records),
        "execute": statistics.median(r.ms.execute for r in records),
    }


# ------------------------------------------------------------------ the e-health query
def ehealth(folder: Path, minutes: int, checked: int) -> list[dict[str, Any]]:
    """The paper's query over the recorded streams of its use case; some instants of the first minute are verified.

    The independent evaluation joins before it filters: the product of three sensors, 200,000 rows per minute, for each place and
    activity.
    """
    data = real_data("rspqlstar") / "use-case"
    store = load(folder / "ehealth", [StaticSource(data / "base-data.ttl")])
    found, runs = [], []
    for form in ("rdf-star", "reification"):
        text = (QUERIES / f"ehealth-{form}.rq").read_text(encoding="utf-8")
        files = {f"{STREAM}/{name}": _recorded(folder, data, name, form, minutes) for name in EHEALTH}
        query, at = parse(text), folder / f"ehealth-{form}"
        prepared = prepare("q", text, store, files, at, BatchSize(duration=10 * SECOND))
        out = at / "answers.jsonl"
        records, _ = prepared.finish(at / "state", out=out)
        got, meant = read_answers(out), query_semantics(query)
        options = Options(f"p:{meant.report.default.period}", operator=meant.operator, duplicates=meant.duplicates)
        inputs = read_inputs(list(files.items()), [data / "base-data.ttl"]).inputs
        every = moments(query, inputs, options)
        early = every[:EARLY]
        only = {early[at] for at in np.linspace(0, len(early) - 1, checked).round().astype(int)}
        differences = compare(evaluate(query, inputs, options, only), type(got)({k: n for k, n in got.items() if k[0] in only}))
        if differences:
            raise RunError(f"the e-health query, {form}: {report(differences, 2)}")
        runs.append(got)
        took = statistics.median(r.ms.execute + r.ms.ingest + r.ms.optimize + r.ms.statistics for r in records)
        found.append(
            {
                "form": form,
                "instants": len(every),
                "checked": len(only),
                "alerts": sum(got.values()),
                "checked alerts": sum(n for (time, *_), n in got.items() if time in only),
                "milliseconds": took,
            }
        )
    if runs[0] != runs[1]:
        raise RunError("the e-health query gives other answers over reification than over RDF-star")
    return found


def _recorded(folder: Path, data: Path, name: str, form: str, minutes: int) -> Path:
    """The first minutes of a recorded stream; activity and location are not annotated in either form."""
    encoded = f"-{form.replace('-', '')}" if name in EHEALTH[:3] else ""
    lines = minutes * (60 if encoded else 6)
    path = folder / f"{name}-{form}.trigs"
    with gzip.open(data / f"{name}{encoded}.trigs.gz", "rt", encoding="utf-8") as file, path.open("w", encoding="utf-8") as out:
        out.writelines(line for _, line in zip(range(lines + 1), file))
    return path


# ------------------------------------------------------------------ the study
def study(quick: bool) -> dict[str, Any]:
    """Bytes, times, and the e-health query if its data exist."""
    counts, seconds, rate = ((1, 5), 16, 20) if quick else ((1, 2, 4, 6, 8, 10), 24, 400)
    with scratch_folder() as folder:
        store = load(folder / "store", [])
        measured = list(times(folder, store, counts, seconds, rate))
        try:
            alerts: list[dict[str, Any]] | str = ehealth(folder, 2 if quick else MINUTES, 6)
        except InputError as error:
            alerts = str(error)
    return {"seed": SEED, "elements a batch": rate, "sizes": list(sizes(10)), "results": measured, "ehealth": alerts}


def show(found: Mapping[str, Any]) -> None:
    """The study as tables."""
    bytes_ = table(
        "annotated", *FORMS, *(f"{form}, gzip" for form in FORMS), "gzip: star / reification", title="Bytes of an element"
    )
    for row in found["sizes"]:
        plain, small = row["bytes"], row["compressed"]
        ratio = f"{small['RDF-star'] / small['reification']:.2f}"
        bytes_.add_row(str(row["annotated"]), *(str(plain[f]) for f in FORMS), *(str(small[f]) for f in FORMS), ratio)
    console().print(bytes_)
    names = [name for name, _, _ in CONTENDERS]
    title = f"Median ms per batch of {found['elements a batch']} elements, window of ten batches (joins alone in brackets)"
    shown = table("annotated", *names, "answers", title=title)
    for row in found["results"]:
        cells = [f"{row['milliseconds'][name]['batch']:.1f} ({row['milliseconds'][name]['execute']:.1f})" for name in names]
        shown.add_row(str(row["annotated"]), *cells, f"{row['answers']:,}")
    console().print(shown)
    if isinstance(found["ehealth"], str):
        print(f"the e-health query did not run: {found['ehealth']}")
        return
    alerts = table(
        "form", "instants", "of them verified", "alerts", "among the verified", "ms per batch of 10 s", title="The e-health query"
    )
    for row in found["ehealth"]:
        alerts.add_row(
            row["form"], *(str(row[k]) for k in ("instants", "checked", "alerts", "checked alerts")), f"{row['milliseconds']:.1f}"
        )
    console().print(alerts)
