"""Random small queries as text, and random small datasets for them (hypothesis strategies)."""

from __future__ import annotations

from hypothesis import strategies as st

PREFIX = "PREFIX : <http://e/>\n"
NAMES = ("x", "y", "z", "w")
RESOURCES = ("a", "b", "c")
PREDICATES = ("p", "q")
GRAPHS = ("g", "h")

variable = st.sampled_from(NAMES).map(lambda name: f"?{name}")
resource = st.sampled_from(RESOURCES).map(lambda name: f":{name}")
number = st.integers(0, 3).map(str)
term = st.one_of(variable, variable, resource, number)


def joined(*parts: st.SearchStrategy[str], by: str = " ") -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(by.join)


member = st.sampled_from([f"{way}:{p}" for way in ("", "^") for p in PREDICATES])
negated = st.lists(member, max_size=2).map("|".join).map(lambda members: f"!({members})")
path = st.recursive(
    st.one_of(member, member, negated, st.just("a")),
    lambda inner: st.one_of(
        joined(inner, st.sampled_from("/|"), inner, by="").map(lambda p: f"({p})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda parts: f"({parts[0]}){parts[1]}"),
        inner.map(lambda p: f"^({p})"),
    ),
    max_leaves=3,
)
predicate = st.sampled_from([f":{p}" for p in PREDICATES] + ["?w"])
triple = joined(st.one_of(variable, variable, resource), st.one_of(predicate, predicate, predicate, path), term)
triples = st.lists(triple, min_size=1, max_size=3).map(lambda found: " . ".join(found) + " .")

comparison = joined(term, st.sampled_from(["=", "!=", "<", ">="]), term)
condition = st.recursive(
    st.one_of(
        comparison,
        variable.map(lambda name: f"BOUND({name})"),
        joined(variable, st.sampled_from(["IN", "NOT IN"]), number.map(lambda n: f"(:a, {n})")),
    ),
    lambda inner: st.one_of(joined(inner.map(lambda c: f"({c})"), st.sampled_from(["&&", "||"]), inner.map(lambda c: f"({c})")),
                            inner.map(lambda c: f"!({c})")),
    max_leaves=3,
)  # fmt: skip
summand = st.one_of(variable, number)
sum_ = st.tuples(summand, st.sampled_from(["+", "*", " -"]), summand).map(lambda parts: "".join(parts))


@st.composite
def group(draw: st.DrawFn, depth: int = 2, whole: bool = False) -> str:
    """A group graph pattern; if BIND would assign a variable twice, both engines must reject the query.

    The ``whole`` language includes constructs that other engines do not implement exactly: EXISTS of any group and in any
    expression, and any group within GRAPH.
    """
    parts = [draw(triples)] if draw(st.booleans()) or not depth else []
    for _ in range(draw(st.integers(0 if parts else 1, 2)) if depth else 0):
        parts.append(draw(element(depth - 1, whole)))
    return "{ " + " ".join(parts) + " }"


def element(depth: int, whole: bool = False) -> st.SearchStrategy[str]:
    inner = group(depth, whole)
    return st.one_of(
        *(
            (
                joined(st.sampled_from(["FILTER EXISTS", "FILTER NOT EXISTS"]), inner),
                joined(condition, st.sampled_from(["||", "&&"]), inner).map(lambda c: f"FILTER({c.replace('{', 'EXISTS {', 1)})"),
                joined(inner, variable, by=" AS ").map(lambda b: f"BIND(EXISTS {b})"),
                joined(triples, inner).map(lambda g: f"OPTIONAL {{ {g.replace('{', 'FILTER EXISTS {', 1)} }}"),
                joined(st.sampled_from([":g", "?w", "?g"]), inner).map(lambda g: f"GRAPH {g}"),
            )
            if whole
            else ()
        ),
        triples,
        inner.map(lambda g: f"OPTIONAL {g}"),
        joined(inner, inner, by=" UNION "),
        inner.map(lambda g: f"MINUS {g}"),
        inner,
        condition.map(lambda c: f"FILTER({c})"),
        joined(st.sampled_from(["FILTER EXISTS", "FILTER NOT EXISTS"]), triples.map(lambda t: f"{{ {t} }}")),
        joined(sum_, variable, by=" AS ").map(lambda b: f"BIND({b})"),
        joined(variable, st.lists(st.one_of(resource, number, st.just("UNDEF")), max_size=2).map(" ".join), by=" { ").map(
            lambda v: f"VALUES {v} }}"
        ),
        joined(st.sampled_from([f":{g}" for g in GRAPHS] + ["?w", "?g"]), triples.map(lambda t: f"{{ {t} }}")).map(
            lambda g: f"GRAPH {g}"
        ),
        select(depth, whole).map(lambda s: f"{{ {s} }}"),
    )


@st.composite
def select(draw: st.DrawFn, depth: int = 2, whole: bool = False) -> str:
    """A SELECT, plain or grouped, without LIMIT (the choice among equal rows is undefined)."""
    where = draw(group(depth, whole))
    keys = draw(st.lists(variable, max_size=2, unique=True))
    if draw(st.integers(0, 2)):
        head = " ".join(keys) or "*"
        return f"SELECT {draw(st.sampled_from(['', 'DISTINCT ']))}{head} {where}"
    columns = [f"({draw(aggregate)} AS ?n{n})" for n in range(draw(st.integers(1, 2)))]
    by = f" GROUP BY {' '.join(keys)}" if keys else ""
    having = f" HAVING (COUNT(*) {draw(st.sampled_from(['>', '<']))} {draw(number)})" if draw(st.integers(0, 3)) == 0 else ""
    return f"SELECT {' '.join(keys + columns)} {where}{by}{having}"


aggregate = st.one_of(
    st.just("COUNT(*)"),
    st.tuples(st.sampled_from(["", "DISTINCT "]), variable).map(lambda parts: f"COUNT({parts[0]}{parts[1]})"),
    # of bound members: in pyoxigraph, MIN of a bag with unbound members is unbound; ours ignores them
    st.tuples(st.sampled_from(["MIN", "MAX"]), st.sampled_from(["", "DISTINCT "]), variable).map(
        lambda parts: f"{parts[0]}({parts[1]}COALESCE({parts[2]}, 0))"
    ),
)

datum = st.tuples(
    st.sampled_from(RESOURCES).map(lambda name: f"<http://e/{name}>"),
    st.sampled_from(PREDICATES).map(lambda name: f"<http://e/{name}>"),
    st.one_of(
        st.sampled_from(RESOURCES).map(lambda name: f"<http://e/{name}>"),
        st.integers(0, 3).map(lambda n: f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>'),
    ),
)
# every constant of the queries is a node of every graph: pyoxigraph has no path of length zero at other terms (§18.4 has)
NODES = frozenset(
    (f"<http://e/{name}>", "<http://e/is>", f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>')
    for name, n in zip((*RESOURCES, RESOURCES[0]), range(4))
)
dataset = st.fixed_dictionaries(
    {name: st.frozensets(datum, min_size=4, max_size=10).map(NODES.union) for name in ("", *(f"<http://e/{g}>" for g in GRAPHS))}
)
