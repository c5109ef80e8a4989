"""A backtracking matcher that counts its steps: for the regular expressions that no linear-time engine has (references to groups).

Backtracking takes exponential time on some texts, so a call that takes more than :data:`STEPS` steps is an error. Steps and not seconds, so
that a row has the same value each time it is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cqels_opt.query.numeric import ExpressionError

STEPS: Final = 500_000
"""Steps of one call of REGEX or REPLACE: less than a second."""
INSTRUCTIONS: Final = 20_000
"""Instructions of a compiled pattern; ``a{1000}`` is compiled to 1,000."""

_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})(\??)")
_REFERENCE = re.compile(r"\(\?:\\(\d+)\)")
_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

One: TypeAlias = "re.Pattern[str]"


@dataclass(frozen=True, slots=True)
class Take:
    """Matches one character, or a position (``^``)."""

    one: One


@dataclass(frozen=True, slots=True)
class Same:
    """Matches again what a group has matched."""

    group: int
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class Save:
    """Remembers the position: of the begin or end of a group, or of a pass through a loop."""

    slot: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Leaves a loop whose pass, since its :class:`Save`, has matched nothing."""

    slot: int


@dataclass(frozen=True, slots=True)
class Split:
    """Continues at ``first``, and where that fails at ``second``, counted from here."""

    first: int
    second: int


Instruction: TypeAlias = Take | Same | Save | Moved | Split
Code: TypeAlias = list[Instruction]


@dataclass(frozen=True, slots=True)
class BoundedMatch:
    """What a match has matched, by group."""

    text: str
    saved: tuple[int, ...]

    def __getitem__(self, group: int) -> str | None:
        begin, end = self.saved[2 * group : 2 * group + 2]
        return None if begin < 0 or end < 0 else self.text[begin:end]


class BoundedPattern:
    """A pattern, given as tokens of Python's syntax: a character, class, position, reference, bracket, bar or quantifier."""

    def __init__(self, tokens: Sequence[str], options: re.RegexFlag) -> None:
        self._tokens, self._at, self._options = tokens, 0, options
        self._ones: dict[str, One] = {}
        self.groups = sum(token == "(" for token in tokens)
        self._open, self._slots = 0, 2 * self.groups + 2
        self._code = self._alternatives()

    def search(self, text: str) -> BoundedMatch | None:
        """The first match."""
        return self._search(text, 0, _Budget())

    def sub(self, expand: Callable[[BoundedMatch], str], text: str) -> str:
        """The text with all matches replaced."""
        parts, at, budget = list[str](), 0, _Budget()
        while at <= len(text) and (match := self._search(text, at, budget)) is not None:
            begin, end = match.saved[:2]
            parts += [text[at:begin], expand(match)]
            if begin == end:
                parts.append(text[end : end + 1])
            at = end + (begin == end)
        return "".join([*parts, text[at:]])

    # ------------------------------------------------------------------ compiling
    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _alternatives(self) -> Code:
        code = self._sequence()
        if self._peek() != "|":
            return code
        self._at += 1
        other = self._alternatives()
        return self._bounded([Split(1, len(code) + 2), *code, Split(len(other) + 1, 0), *other])

    def _sequence(self) -> Code:
        code: Code = []
        while self._peek() not in ("", "|", ")"):
            code += self._quantified(self._piece())
        return self._bounded(code)

    def _piece(self) -> Code:
        token = self._peek()
        self._at += 1
        if token in ("(", "(?:"):
            return self._group(token == "(")
        if reference := _REFERENCE.fullmatch(token):
            return [Same(int(reference[1]), bool(self._options & re.IGNORECASE))]
        if token not in self._ones:
            self._ones[token] = re.compile(token, self._options)
        return [Take(self._ones[token])]

    def _group(self, captures: bool) -> Code:
        if captures:
            self._open += 1
            slot = 2 * self._open
            code = [Save(slot), *self._alternatives(), Save(slot + 1)]
        else:
            code = self._alternatives()
        self._at += 1
        return code

    def _quantified(self, piece: Code) -> Code:
        found = _QUANTIFIER.fullmatch(self._peek())
        if found is None:
            return piece
        self._at += 1
        sign, least, comma, most, lazy = found.groups()
        low, high = _BOUNDS[sign] if sign else (int(least), int(most) if most else None if comma else int(least))
        self._bounded(piece * min(low if high is None else high, INSTRUCTIONS + 1))
        code = piece * low
        if high is None:
            slot, self._slots = self._slots, self._slots + 1
            body: Code = [Save(slot), *piece, Moved(slot)]
            return [*code, _choice(1, len(body) + 2, lazy), *body, Split(-len(body) - 1, 0)]
        for left in range(high - low, 0, -1):
            code += [_choice(1, left * (len(piece) + 1), lazy), *piece]
        return code

    def _bounded(self, code: Code) -> Code:
        if len(code) > INSTRUCTIONS:
            raise ExpressionError(
                f"the regular expression is too large: more than {INSTRUCTIONS:,} characters when its counts are written out"
            )
        return code

    # ------------------------------------------------------------------ matching
    def _search(self, text: str, start: int, budget: _Budget) -> BoundedMatch | None:
        for begin in range(start, len(text) + 1):
            saved = self._match(text, begin, budget)
            if saved is not None:
                return BoundedMatch(text, saved[: 2 * self.groups + 2])
        return None

    def _match(self, text: str, begin: int, budget: _Budget) -> tuple[int, ...] | None:
        code, size = self._code, len(self._code)
        later = [(0, begin, (begin, *[-1] * (self._slots - 1)))]
        while later:
            at, position, saved = later.pop()
            while at < size:
                budget.spend()
                instruction = code[at]
                if isinstance(instruction, Split):
                    if instruction.second:
                        later.append((at + instruction.second, position, saved))
                    at += instruction.first
                    continue
                if isinstance(instruction, Save):
                    slot = instruction.slot
                    saved = (*saved[:slot], position, *saved[slot + 1 :])
                elif isinstance(instruction, Moved):
                    at += saved[instruction.slot] == position  # over the jump back
                else:
                    end = _taken(instruction, text, position, saved)
                    if end < 0:
                        break
                    position = end
                at += 1
            else:
                return (begin, position, *saved[2:])
        return None


def _taken(instruction: Take | Same, text: str, position: int, saved: tuple[int, ...]) -> int:
    """The position behind what is matched; negative where it is not."""
    if isinstance(instruction, Take):
        found = instruction.one.match(text, position)
        return -1 if found is None else found.end()
    begin, end = saved[2 * instruction.group : 2 * instruction.group + 2]
    if begin < 0 or end < 0:
        return -1
    wanted, given = text[begin:end], text[position : position + end - begin]
    same = wanted == given or (instruction.ignore_case and wanted.lower() == given.lower())
    return position + end - begin if same else -1


def _choice(first: int, second: int, lazy: str) -> Split:
    return Split(second, first) if lazy else Split(first, second)


class _Budget:
    """The steps that are left to a call."""

    def __init__(self) -> None:
        self.left = STEPS

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ExpressionError(f"the regular expression takes more than {STEPS:,} steps")
