"""Windows are bags, where a triple may arrive twice; RDF graphs are sets: how an engine of sets matches a bag.

The content of window w is put into several graphs: copy i holds the triples that the window holds i times or more. A triple
pattern matched over a bag is then, by the definition of UNION, the pattern over copy 1 UNION the pattern over copy 2 … So where a
window holds some triple k times, each *triple pattern* t inside ``GRAPH <w> { … }`` becomes

    { { GRAPH <w> { t } } UNION { GRAPH <w#2> { t } } UNION … UNION { GRAPH <w#k> { t } } }

pattern by pattern, because a basic graph pattern over a bag is the join of its triple patterns over the bag. No variable is
added, so nothing else in the query (DISTINCT, MINUS, ``*``, groups) can notice. ``;`` ``,`` ``[ ]`` and lists are written out
first; a blank node becomes a variable ``?_bag_…``, since patterns may share it, which heads.hidden() knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from cqels_opt.errors import QueryError
from cqels_opt.verify.dialects import DEFAULT, HERE, graph_copy, window_graph
from cqels_opt.verify.heads import PREFIX
from cqels_opt.verify.tokens import Token, closing, solid, tokens

_GROUP_WORDS = frozenset(("OPTIONAL", "UNION", "MINUS", "FILTER", "BIND", "VALUES", "GRAPH", "SERVICE", "SELECT"))
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def over_copies(plain: str, copies: Mapping[str, int], merged: Mapping[str, int] | None = None) -> str:
    """The plain text, its triple patterns in windows spread over copies.

    ``copies`` says how many each window has, and ``merged`` how many each graph in which windows are merged with static data.
    """
    graphs = {window_graph(name): k for name, k in copies.items()} | dict(merged or {})
    many = {f"<{graph}>": (graph, k) for graph, k in graphs.items() if k > 1}
    return _Spreader(plain, many).text() if many or HERE in plain else plain


def written_out(triples: str) -> list[tuple[str, str, str]]:
    """The triples of a block of them, ``;`` ``,`` ``[ ]`` and lists written out; blank nodes are hidden variables."""
    found, spreader = solid(tokens(triples)), _Spreader(triples, {})
    written: list[tuple[str, str, str]] = []
    place = depth = 0
    for at, token in enumerate([*found, Token("mark", ".", len(triples), len(triples))]):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if token.text == "." and token.kind == "mark" and depth == 0:
            written += spreader.written_out(found[place:at]) if at > place else []
            place = at + 1
    return written


class _Spreader:
    """One pass over the text. A window's name travels down with the groups inside it; None means: leave patterns as they are."""

    def __init__(self, plain: str, many: Mapping[str, tuple[str, int]]) -> None:
        self.plain, self.many = plain, dict(many)
        self.tokens = solid(tokens(plain))
        self.out: list[str] = []
        self.fresh = 0

    def text(self) -> str:
        self._copy_until(0, len(self.tokens), f"<{DEFAULT}>" if f"<{DEFAULT}>" in self.many else None)
        return " ".join(self.out)

    def _copy_until(self, place: int, end: int, window: str | None) -> None:
        """What is no group goes as it is (the query's head, expressions, solution modifiers); groups inside it are walked."""
        while place < end:
            token = self.tokens[place]
            if token.word() == "VALUES":
                place = self._values(place)
            elif token.text == "{" and token.kind == "mark":
                place = self._group(place, window)
            else:
                self.out.append(token.text)
                place += 1

    def _group(self, place: int, window: str | None) -> int:
        """``{ … }`` that begins at ``place``; returns the place after it."""
        end = closing(self.tokens, place)
        self.out.append("{")
        place += 1
        if self.tokens[place + 1].text == f"<{HERE}>":  # GRAPH <here> { } GRAPH <window> { }
            window = self.tokens[place + 5].text
            self.many.setdefault(window, (window[1:-1], 1))
            place += 8
        if self.tokens[place].word() == "SELECT":
            self._copy_until(place, end, window)
            place = end
        while place < end:
            token = self.tokens[place]
            word = token.word()
            if token.kind == "mark" and token.text == "{":
                place = self._group(place, window)
            elif word == "VALUES":
                place = self._values(place)
            elif word in ("FILTER", "BIND"):
                place = self._expression(place, end, window)
            elif word == "GRAPH":
                place = self._graph(place)
            elif word in _GROUP_WORDS or token.text == ".":
                self.out.append(token.text)
                place += 1
            else:
                place = self._triples(place, end, window)
        self.out.append("}")
        return end + 1

    def _values(self, place: int) -> int:
        opening = next(i for i in range(place, len(self.tokens)) if self.tokens[i].text == "{")
        end = closing(self.tokens, opening) + 1
        self.out += [t.text for t in self.tokens[place:end]]
        return end

    def _graph(self, place: int) -> int:
        """``GRAPH name { … }``: a window with copies loses its GRAPH, since each of its patterns gets its own."""
        name = self.tokens[place + 1].text
        if name in self.many:
            return self._group(place + 2, name)
        self.out += ["GRAPH", name]
        return self._group(place + 2, None)

    def _expression(self, place: int, end: int, window: str | None) -> int:
        """FILTER or BIND with its expression; the groups of EXISTS inside it are walked."""
        depth = 0
        while place < end:
            token = self.tokens[place]
            if token.kind == "mark" and token.text == "{":
                place = self._group(place, window)
                if depth == 0:
                    return place
                continue
            self.out.append(token.text)
            place += 1
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if depth == 0 and token.text == ")":
                return place
        return place

    def _triples(self, place: int, end: int, window: str | None) -> int:
        """The triples up to the next full stop or keyword."""
        stop, depth = place, 0
        while stop < end:
            token = self.tokens[stop]
            if depth == 0 and (token.text in (".", "{") or token.word() in _GROUP_WORDS):
                break
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            stop += 1
        if window is None:
            self.out += [t.text for t in self.tokens[place:stop]]
        elif self.many[window][1] == 1:
            self.out += ["GRAPH", window, "{", *(t.text for t in self.tokens[place:stop]), "}"]
        else:
            for triple in self.written_out(self.tokens[place:stop]):
                self.out.append(self._spread(" ".join(triple), window))
        return stop

    def _spread(self, triple: str, window: str) -> str:
        name, copies = self.many[window]
        parts: Iterator[str] = (f"{{ GRAPH <{graph_copy(name, i)}> {{ {triple} }} }}" for i in range(1, copies + 1))
        if name == DEFAULT:
            parts = chain([f"{{ {triple} }}"], islice(parts, 1, None))
        return "{ " + " UNION ".join(parts) + " }"

    # ------------------------------------------------------------ ; , [ ] ( ) written out
    def written_out(self, part: Sequence[Token]) -> list[tuple[str, str, str]]:
        """``s p o ; q r , t`` as its triples."""
        triples: list[tuple[str, str, str]] = []
        subject, place = self._node(part, 0, triples)
        place = self._properties(part, place, subject, triples)
        if place != len(part):
            raise self._unsupported(part[place])
        return triples

    def _properties(self, part: Sequence[Token], place: int, subject: str, triples: list[tuple[str, str, str]]) -> int:
        while place < len(part) and part[place].text != "]":
            if part[place].text == ";":
                place += 1
                continue
            verb = part[place]
            if verb.kind not in ("variable", "iri", "name") and verb.text != "a":
                raise self._unsupported(verb)
            place += 1
            while True:
                if not _begins_node(part, place):
                    raise self._unsupported(part[min(place, len(part) - 1)])
                item, place = self._node(part, place, triples)
                triples.append((subject, verb.text, item))
                if place >= len(part) or part[place].text != ",":
                    break
                place += 1
        return place

    def _node(self, part: Sequence[Token], place: int, triples: list[tuple[str, str, str]]) -> tuple[str, int]:
        """A subject or object: (text, place after it); the triples of brackets are added."""
        token = part[place]
        if token.text == "[" and token.kind == "mark":
            node = self._fresh()
            return node, self._properties(part, place + 1, node, triples) + 1
        if token.text == "(" and token.kind == "mark":
            return self._list(part, place + 1, triples)
        if token.kind == "blank":
            return f"?{PREFIX}{token.text[2:].encode().hex()}", place + 1
        text, place = token.text, place + 1
        if token.text in ("+", "-") and place < len(part):  # a signed number
            text, place = text + part[place].text, place + 1
        if place < len(part) and part[place].kind == "language":
            return text + part[place].text, place + 1
        if place < len(part) and part[place].text == "^^":
            return f"{text}^^{part[place + 1].text}", place + 2
        return text, place

    def _list(self, part: Sequence[Token], place: int, triples: list[tuple[str, str, str]]) -> tuple[str, int]:
        items: list[str] = []
        while part[place].text != ")":
            item, place = self._node(part, place, triples)
            items.append(item)
        rest = f"<{_RDF}nil>"
        for item in reversed(items):
            node = self._fresh()
            triples += [(node, f"<{_RDF}first>", item), (node, f"<{_RDF}rest>", rest)]
            rest = node
        return rest, place + 1

    def _fresh(self) -> str:
        self.fresh += 1
        return f"?{PREFIX}{self.fresh}_"

    def _unsupported(self, token: Token) -> QueryError:
        before = self.plain[: token.start]
        column = token.start - (before.rfind("\n") + 1) + 1
        message = "verify cannot match a property path in a window in which a triple is repeated"
        return QueryError(message, self.plain, before.count("\n") + 1, column)


def _begins_node(part: Sequence[Token], place: int) -> bool:
    """Whether an object begins here; after a predicate that is a path, one of the path's marks does."""
    if place >= len(part):
        return False
    if part[place].text in ("+", "-"):
        return place + 1 < len(part) and part[place + 1].kind == "number"
    return part[place].kind != "mark" or part[place].text in ("[", "(")
