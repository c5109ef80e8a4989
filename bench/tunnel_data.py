"""The tunnel of Keskisärkkä et al. 2021 (§5.1), regenerated, and the streams of their follow-up experiment (§5.3).

Sectors of a tunnel have two sensors of oxygen and two of temperature; each kind is a stream, with one observation per second and
sensor. ``oxygen1`` and ``temperature1`` annotate the triple of each value with its uncertainty; for the sensors of the other two,
the static data have it. 95 % of the values are within the thresholds, 18 % of oxygen and 30 degrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from cqels_opt.bench.local import write_elements
from cqels_opt.verify import Element

BASE = "http://example.org/tunnel/"
SOSA, RSPU, RDFS = "http://www.w3.org/ns/sosa/", "http://w3id.org/rsp/rspu#", "http://www.w3.org/2000/01/rdf-schema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TYPE = f"<{RDF}type>"
DECIMAL = "http://www.w3.org/2001/XMLSchema#decimal"
KINDS = ("oxygen1", "oxygen2", "temperature1", "temperature2")
SAID_WITH_VALUES = ("oxygen1", "temperature1")
MEAN = {"oxygen": 0.2, "temperature": 25.0}
TO_THRESHOLD = {"oxygen": 0.02, "temperature": 5.0}  # from the mean
VARIANCES = {"oxygen": ("0.000001", "0.000004", "0.000016"), "temperature": ("0.04", "0.16", "0.64")}
Triple = tuple[str, str, str]
PREFIXES = f"PREFIX : <{BASE}> PREFIX sosa: <{SOSA}> PREFIX rspu: <{RSPU}>\n"


def iri(name: str, base: str = BASE) -> str:
    """A term of the world."""
    return f"<{base}{name}>"


def distribution(text: str) -> str:
    """The literal of a distribution."""
    return f'"{text}"^^<{RSPU}distribution>'


def decimal(value: float, digits: int) -> str:
    """The literal of a decimal."""
    return f'"{value:.{digits}f}"^^<{DECIMAL}>'


def quantity(kind: str) -> str:
    """The quantity that a kind of sensor measures."""
    return kind.rstrip("12")


def stream_iri(kind: str) -> str:
    """The stream of a kind."""
    return BASE + "stream/" + kind


@dataclass(frozen=True, slots=True)
class Tunnel:
    """The number of sectors, the observed seconds, and the share of values beyond their threshold."""

    sectors: int = 1_000
    seconds: int = 28
    seed: int = 1
    beyond: float = 0.05

    def static(self) -> Iterator[tuple[str, str, str]]:
        """Sectors, properties and sensors: 23 triples per sector."""
        random = np.random.default_rng(self.seed)
        for name in ("oxygen", "temperature"):
            yield iri(name), TYPE, iri("ObservableProperty", SOSA)
        for i in range(self.sectors):
            sector = iri(f"sector{i}")
            yield sector, TYPE, iri("FeatureOfInterest", SOSA)
            yield sector, iri("label", RDFS), f'"sector {i}"'
            yield sector, iri("next"), iri(f"sector{i + 1}")
            yield sector, iri("partOf"), iri(f"section{i // 50}")
            yield sector, iri("position"), decimal(10.0 * i, 1)
            for kind in KINDS:
                sensor = iri(f"{kind}/sensor{i}")
                yield sensor, TYPE, iri("Sensor", SOSA)
                yield sensor, iri("observes", SOSA), iri(quantity(kind))
                yield sensor, iri("installedIn"), sector
                yield sensor, iri("model"), f'"model {kind}"'
                if kind not in SAID_WITH_VALUES:
                    yield sensor, iri("accuracy"), distribution(f"N(0, {random.choice(VARIANCES[quantity(kind)])})")

    def stream(self, kind: str) -> Iterator[Element]:
        """The observations of one kind, each a graph, in time order."""
        random = np.random.default_rng((self.seed, KINDS.index(kind)))
        what = quantity(kind)
        digits = 4 if what == "oxygen" else 2
        spread = TO_THRESHOLD[what] / float(ndtri(1 - self.beyond))
        for second in range(1, self.seconds + 1):
            values = random.normal(MEAN[what], spread, self.sectors)
            variances = random.choice(VARIANCES[what], self.sectors)
            for i, value in enumerate(values.tolist()):
                observation = iri(f"{kind}/{second}/{i}")
                result = (observation, iri("hasSimpleResult", SOSA), decimal(value, digits))
                said = (
                    _annotation(result, iri(f"{kind}/{second}/{i}/said"), distribution(f"N(0, {variances[i]})"))
                    if kind in SAID_WITH_VALUES
                    else ((observation, iri("madeBySensor", SOSA), iri(f"{kind}/sensor{i}")),)
                )
                yield Element(1000 * second, (result, (observation, iri("hasFeatureOfInterest", SOSA), iri(f"sector{i}")), *said))

    def write(self, folder: Path) -> tuple[Path, dict[str, Path]]:
        """Writes the static data and the stream of each kind."""
        return _write(folder / "tunnel.nt", self.static(), {kind: self.stream(kind) for kind in KINDS})


def _write(static: Path, triples: Iterable[Triple], streams: Mapping[str, Iterable[Element]]) -> tuple[Path, dict[str, Path]]:
    """Writes static data, and next to them a file for each stream; returns the files."""
    static.parent.mkdir(parents=True, exist_ok=True)
    static.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in triples), encoding="utf-8")
    for name, elements in streams.items():
        write_elements(static.with_name(f"{name}.ndjson"), elements)
    return static, {stream_iri(name): static.with_name(f"{name}.ndjson") for name in streams}


def _annotation(triple: Triple, reifier: str, uncertainty: str) -> tuple[Triple, Triple]:
    """``<< s p o ~ reifier >> rspu:uncertainty u`` in RDF 1.2."""
    return (reifier, f"<{RDF}reifies>", f"<<( {' '.join(triple)} )>>"), (reifier, iri("uncertainty", RSPU), uncertainty)


# ------------------------------------------------------------------ queries
def _group(kind: str, n: int, more: str, uncertain: bool) -> str:
    """The observations of a kind: ?v1, ?l and, if requested, ?u1, the uncertainty of the value."""
    inside, static = f"?o{n} sosa:hasSimpleResult ?v{n} ; sosa:hasFeatureOfInterest ?l", ""
    if uncertain and kind in SAID_WITH_VALUES:
        inside += f" . << ?o{n} sosa:hasSimpleResult ?v{n} >> rspu:uncertainty ?u{n}"
    elif uncertain:
        inside += f" ; sosa:madeBySensor ?s{n}"
        static = f" ?s{n} :accuracy ?u{n} ."
    return f"  WINDOW :w{n} {{ {inside} . }}{static} {more}\n"


def _query(groups: Sequence[tuple[str, str]], names: str, last: str = "") -> dict[str, str]:
    """A query in both orders, ``a`` and ``b``; names of variables and windows belong to their kinds."""
    numbered = [(kind, n, more) for n, (kind, more) in enumerate(groups, 1)]
    found = {}
    for order, parts in (("a", numbered), ("b", numbered[::-1])):
        windows = "".join(f"FROM NAMED WINDOW :w{n} ON <{stream_iri(kind)}> [RANGE PT10S STEP PT1S]\n" for kind, n, _ in parts)
        head = f"{PREFIXES}REGISTER STREAM :warning COMPUTED EVERY PT4S AS\nSELECT {names}\n"
        body = "".join(_group(kind, n, more, uncertain=f"?u{n}," in more + last) for kind, n, more in parts)
        found[order] = f"{head}{windows}WHERE {{\n{body}{last}}}\n"
    return found


def queries(threshold: float) -> dict[str, str]:
    """Q1 to Q6, each as a and b. Q4 to Q6 bind the probabilities that Q1 to Q3 filter by, and filter by the reported values."""

    def low(n: int) -> str:
        return f"rspu:lessThan(rspu:add(?u{n}, ?v{n}), 0.18)"

    def hot(n: int) -> str:
        return f"rspu:greaterThan(rspu:add(?u{n}, ?v{n}), 30)"

    def differ(a: int, b: int) -> str:
        return f"rspu:greaterThan(rspu:add(?u{a}, ?v{a}), rspu:add(?u{b}, ?v{b}))"

    def surely(condition: str) -> str:
        return f"FILTER({condition} >= {threshold})"

    found = {
        "Q1": _query([("oxygen1", surely(low(1))), ("temperature1", "FILTER(?v2 > 30)")], "?l ?v1 ?v2"),
        "Q2": _query(
            [
                ("oxygen1", surely(low(1))),
                ("oxygen2", surely(low(2))),
                ("temperature1", surely(hot(3))),
                ("temperature2", surely(hot(4))),
            ],
            "?l ?v1 ?v2 ?v3 ?v4",
        ),
        "Q3": _query(
            [("oxygen1", ""), ("oxygen2", ""), ("temperature1", "FILTER(?v3 > 30)")],
            "?l ?v1 ?v2 ?v3",
            f"  {surely(differ(1, 2))}\n",
        ),
        "Q4": _query([("oxygen1", f"BIND({low(1)} AS ?p1)"), ("temperature1", "FILTER(?v2 > 30)")], "?l ?v1 ?v2 ?p1"),
        "Q5": _query(
            [
                ("oxygen1", f"FILTER(?v1 < 0.18) BIND({low(1)} AS ?p1)"),
                ("oxygen2", f"FILTER(?v2 < 0.18) BIND({low(2)} AS ?p2)"),
                ("temperature1", f"FILTER(?v3 > 30) BIND({hot(3)} AS ?p3)"),
                ("temperature2", f"FILTER(?v4 > 30) BIND({hot(4)} AS ?p4)"),
            ],
            "?l ?p1 ?p2 ?p3 ?p4",
        ),
        "Q6": _query(
            [("oxygen1", ""), ("oxygen2", ""), ("temperature1", "FILTER(?v3 > 30)")],
            "?l ?v1 ?v2 ?p",
            f"  BIND({differ(1, 2)} AS ?p)\n",
        ),
    }
    return {name + order: text for name, both in found.items() for order, text in both.items()}


# ------------------------------------------------------------------ the follow-up experiment
CARDINALITIES = (0.01, 0.1, 1, 10)
SELECTIVITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
DRIFTS = (0.05, 0.95)  # the selectivity before and after the change in mid-stream


@dataclass(frozen=True, slots=True)
class Linked:
    """Two streams of ``events`` per second; events of the first link to simultaneous events of the second, per cardinality.

    With ``drifts`` the values of the first rise at half the time, so that the filter of ``DRIFTS[0]`` keeps ``DRIFTS[1]``.
    """

    events: int = 1_000
    seconds: int = 28
    seed: int = 1
    drifts: bool = False
    cardinalities: tuple[float, ...] = CARDINALITIES

    def write(self, folder: Path) -> tuple[Path, dict[str, Path]]:
        """Writes both streams and an empty static file."""
        return _write(folder / "nothing.nt", (), {"first": self._first(), "second": self._second()})

    def _first(self) -> Iterator[Element]:
        random = np.random.default_rng(self.seed)
        for second in range(1, self.seconds + 1):
            risen = float(ndtri(DRIFTS[1]) - ndtri(DRIFTS[0])) if self.drifts and 2 * second > self.seconds else 0.0
            values = random.normal(risen, 1, self.events).tolist()
            for i, value in enumerate(values):
                event = iri(f"first/{second}/{i}")
                triples = [
                    (event, iri("hasSimpleResult", SOSA), decimal(value, 6)),
                    (event, iri("uncertainty", RSPU), distribution("N(0, 0.01)")),
                ]
                for cardinality in self.cardinalities:
                    links = int((i + 1) * cardinality) - int(i * cardinality) if cardinality < 1 else int(cardinality)
                    for k in range(links):
                        triples.append((event, links_by(cardinality), iri(f"second/{second}/{(i + k) % self.events}")))
                yield Element(1000 * second, tuple(triples))

    def _second(self) -> Iterator[Element]:
        for second in range(1, self.seconds + 1):
            for i in range(self.events):
                yield Element(1000 * second, ((iri(f"second/{second}/{i}"), iri("value"), decimal(i, 0)),))


def links_by(cardinality: float) -> str:
    """The property that links an event to ``cardinality`` others."""
    return iri(f"links{str(cardinality).replace('.', '_')}")


def linked_query(cardinality: float, selectivity: float) -> str:
    """A filter on the first stream with this selectivity, and the join with the second stream."""
    bound = f"{float(-ndtri(selectivity)):.6f}"
    return (
        f"{PREFIXES}REGISTER STREAM :out COMPUTED EVERY PT4S AS\nSELECT ?e ?x\n"
        f"FROM NAMED WINDOW :w1 ON <{stream_iri('first')}> [RANGE PT4S STEP PT4S]\n"
        f"FROM NAMED WINDOW :w2 ON <{stream_iri('second')}> [RANGE PT4S STEP PT4S]\nWHERE {{\n"
        f"  WINDOW :w1 {{ ?e sosa:hasSimpleResult ?v ; rspu:uncertainty ?u ; {links_by(cardinality)} ?f }}\n"
        f"  WINDOW :w2 {{ ?f :value ?x }}\n"
        f"  FILTER(rspu:greaterThan(rspu:add(?u, ?v), {bound}) >= 0.5)\n}}\n"
    )
