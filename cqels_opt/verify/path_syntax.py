"""The syntax of property paths (SPARQL 1.1 §9.1, and rules 88 to 96 of its grammar)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cqels_opt.verify.tokens import Token

_SIMPLE = ("iri", "name", "variable")


@dataclass(frozen=True, slots=True)
class Path:
    """``kind`` is step, inverse, /, |, ! or repeated; ``text`` is that of a step, or ``*``, ``+``, ``?``."""

    kind: str
    text: str = ""
    parts: tuple[Path, ...] = ()

    def written(self) -> str:
        """In SPARQL's syntax."""
        match self.kind:
            case "step":
                return self.text
            case "inverse":
                inner = self.parts[0]
                if inner.kind == "!" and inner.parts:  # rdflib would put the inverse before each member
                    return Path("!", "", tuple(part._inverted() for part in inner.parts)).written()
                return f"^({inner.written()})"
            case "!":
                inside = "|".join(f"^{p.parts[0].text}" if p.kind == "inverse" else p.text for p in self.parts)
                return f"!({inside or '<urn:cqels-opt:none>'})"  # pyoxigraph rejects an empty set
            case "repeated":
                return f"({self.parts[0].written()}){self.text}"
        return "(" + self.kind.join(part.written() for part in self.parts) + ")"

    def _inverted(self) -> Path:
        """A member of a negated set, in the other direction."""
        return self.parts[0] if self.kind == "inverse" else Path("inverse", "", (self,))


def step(text: str) -> Path:
    """A predicate."""
    return Path("step", text)


def read_path(part: Sequence[Token], place: int) -> tuple[Path, int]:
    """The path that begins at a position among tokens, and the position after it."""
    parts, place = [], place - 1
    while True:
        found, place = _sequence(part, place + 1)
        parts.append(found)
        if place >= len(part) or part[place].text != "|":
            return (parts[0] if len(parts) == 1 else Path("|", "", tuple(parts))), place


def _sequence(part: Sequence[Token], place: int) -> tuple[Path, int]:
    parts, place = [], place - 1
    while True:
        place += 1
        inverse = part[place].text == "^"
        found, place = _element(part, place + inverse)
        parts.append(Path("inverse", "", (found,)) if inverse else found)
        if place >= len(part) or part[place].text != "/":
            return (parts[0] if len(parts) == 1 else Path("/", "", tuple(parts))), place


def _element(part: Sequence[Token], place: int) -> tuple[Path, int]:
    token = part[place]
    if token.text == "(":
        found, place = read_path(part, place + 1)
        place += 1
    elif token.text == "!":
        found, place = _negated(part, place + 1)
    elif token.kind in _SIMPLE or token.text == "a":
        found, place = Path("step", token.text), place + 1
    else:
        raise ValueError(f"a path cannot begin with {token.text}")
    after = part[place] if place < len(part) else token
    signed = (
        place + 1 < len(part) and after.text == "+" and part[place + 1].start == after.end and part[place + 1].kind == "number"
    )
    if after.kind == "mark" and after.text in "*+?" and not signed:
        return Path("repeated", after.text, (found,)), place + 1
    return found, place


def _negated(part: Sequence[Token], place: int) -> tuple[Path, int]:
    several = part[place].text == "("
    place += several
    members = []
    while part[place].text != ")":
        inverse = part[place].text == "^"
        step = Path("step", part[place + inverse].text)
        members.append(Path("inverse", "", (step,)) if inverse else step)
        place += 1 + inverse
        if not several:
            return Path("!", "", tuple(members)), place
        place += part[place].text == "|"
    return Path("!", "", tuple(members)), place + 1
