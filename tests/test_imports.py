"""The import rules of the house (DESIGN §2), read from the code: who may import whom; what plans and stats may not touch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "cqels_opt"

# Arrows point to lower storeys only; rooms of one storey do not import each other, but for NEIGHBOURS and PEERS.
# An entry with a dot is a module that lies above the rest of its room.
STOREYS: list[set[str]] = [
    {"errors"},
    {"storage", "plugins"},
    {"rdf", "plans", "stats"},
    {"lod", "windows", "query", "trace", "gateway"},
    {"verify", "operators", "state"},
    {"compiler"},
    {"planner"},
    {"relational", "runtime"},
    {"spark", "local"},
    {"engine", "adaptive_join"},
    {"cli"},
    {"bench"},
    {"cli.demo"},
    {"cli.grammar", "cli.main"},
    {""},  # cqels_opt/__init__.py, the public names
]
STOREY = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
# The vocabulary that a storey shares: the algebra's frozen dataclasses.
NEIGHBOURS = {"windows": {"query.algebra"}, "lod": {"query.algebra"}, "trace": set()}
# Operators read window state, and the state holds rows and indexes of operators: two rooms of one storey, without a circle between files.
PEERS = [{"operators", "state"}]
# Rooms that may see less than their storey would allow.
ONLY = {
    "rdf": {"errors", "storage"},
    "plans": {"errors"},
    "stats": {"errors"},
    "verify": {"errors", "rdf.entities", "query.parser", "query.algebra", "query.extensions"},
}

PURE = {"plans", "stats"}
PURE_LIBRARIES = {"numpy", "networkx", "sortedcontainers", "scipy", "lark"}
IMPURE = {
    *(
        "asyncio",
        "codecs",
        "concurrent",
        "fileinput",
        "ftplib",
        "getpass",
        "glob",
        "http",
        "io",
        "logging",
        "mmap",
        "os",
        "pathlib",
    ),
    *(
        "multiprocessing",
        "pickle",
        "shelve",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
    ),
    *("threading", "urllib", "uuid"),
    *("datetime", "time"),
}


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    """Every module as its dotted name inside the package, and its file; the symlinked rooms are rooms like the others.

    The notebooks and their helper are data of the package.
    """
    for entry in sorted(package.iterdir()):
        if entry.suffix == ".py":
            yield ("" if entry.stem == "__init__" else entry.stem), entry
        elif entry.is_dir() and entry.name not in ("__pycache__", "notebooks"):
            for file in sorted(entry.rglob("*.py")):
                inside = file.relative_to(package).with_suffix("").parts
                yield ".".join(part for part in inside if part != "__init__"), file


def imports(module: str, tree: ast.AST, *, is_package: bool) -> Iterator[tuple[str, int]]:
    """The full names that a module imports, anywhere in it, with their lines; ``from a import b`` is ``a.b``."""
    here = ["cqels_opt", *([part for part in module.split(".") if part])]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = here[: len(here) - node.level + is_package]
                base = ".".join([*up, *([base] if base else [])])
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def within(name: str, allowed: set[str]) -> bool:
    return any(name == entry or name.startswith(entry + ".") for entry in allowed)


def violations(package: Path) -> list[str]:
    """Each broken rule as ``file:line: what is wrong``."""
    rooms = {path.stem if path.suffix else path.name for path in package.iterdir() if path.name != "notebooks"}
    found = []
    for module, file in modules(package):
        room = module.split(".")[0]
        tree = ast.parse(file.read_text(encoding="utf-8"))
        place = file.relative_to(package)
        if room not in STOREY:
            found.append(f"{place}: the room {room} has no storey in tests/test_imports.py")
            continue
        for name, line in imports(module, tree, is_package=file.name == "__init__.py"):
            top, _, inner = name.partition(".")
            wrong = None
            if top == "pyspark" and room != "spark":
                wrong = "pyspark is imported in cqels_opt/spark alone"
            elif top in {"plans", "stats", "bench"}:
                wrong = f"import cqels_opt.{top} instead"
            elif top == "cqels_opt":
                other = inner.split(".")[0]
                other = other if other in rooms | STOREY.keys() else ""  # a name of cqels_opt/__init__.py
                wrong = arrow(module, other, inner)
            elif room in PURE:
                if top in IMPURE:
                    wrong = f"{room} does no I/O and has no clock"
                elif top not in sys.stdlib_module_names and top not in PURE_LIBRARIES:
                    wrong = f"{room} is pure Python and numpy"
            if wrong:
                found.append(f"{place}:{line}: imports {name}: {wrong}")
        if room in PURE:
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}:
                    found.append(f"{place}:{node.lineno}: calls {node.func.id}: {room} does no I/O")
    return found


def storey_of(module: str) -> int:
    """The storey of a module: its own, or that of its room."""
    return STOREY.get(module, STOREY[module.split(".")[0]])


def arrow(module: str, other: str, name: str) -> str | None:
    """What is wrong with a module importing ``name`` of the room ``other``, if anything."""
    room = module.split(".")[0]
    if other == room or {room, other} in PEERS:
        return None
    if room in ONLY:
        return None if within(name, ONLY[room]) else f"{room} may import only {sorted(ONLY[room])} of the package"
    there = ".".join(name.split(".")[:2])
    if other not in STOREY or storey_of(there if there in STOREY else other) < storey_of(module):
        return None
    if within(name, NEIGHBOURS.get(room, set())):
        return None
    return f"the arrow points from {other or 'cqels_opt'} to {room}, never back"


def test_the_house_keeps_its_rules() -> None:
    assert violations(PACKAGE) == []


def test_planning_does_not_run_the_executor() -> None:
    """The planner samples through :mod:`cqels_opt.operators.block_relations`. Calibration alone runs the executor, to time it."""
    found = dict(modules(PACKAGE))
    executor = "cqels_opt.operators.delta_join"
    users = [
        module
        for module, file in found.items()
        if module.startswith("planner.")
        and any(name.startswith(executor) for name, _ in imports(module, ast.parse(file.read_text()), is_package=False))
    ]
    assert users == ["planner.calibration"]


def test_the_symlinked_rooms_are_looked_at() -> None:
    assert {"plans", "stats", "bench"} <= {module.split(".")[0] for module, _ in modules(PACKAGE)}


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("plans/memo.py", "import os", "no clock"),
        ("plans/memo.py", "from datetime import datetime", "no clock"),
        ("plans/memo.py", "def f():\n    import pathlib", "no clock"),
        ("plans/memo.py", "import pyarrow", "pure Python"),
        ("plans/memo.py", "from cqels_opt.stats import counts", "may import only"),
        ("stats/frequencies.py", "from pyspark.sql import SparkSession", "spark alone"),
        ("stats/frequencies.py", "def f():\n    return open('x')", "does no I/O"),
        ("stats/frequencies.py", "import plans.memo", "import cqels_opt.plans"),
        ("operators/probe.py", "import pyspark", "spark alone"),
        ("operators/probe.py", "from cqels_opt.spark import stages", "never back"),
        ("operators/probe.py", "from ..engine import run", "never back"),
        ("operators/rows.py", "from cqels_opt.runtime import ingest", "never back"),
        ("compiler/compile.py", "from cqels_opt.planner.query_planner import QueryPlanner", "never back"),
        ("planner/join_sampling.py", "from cqels_opt.runtime import driver", "never back"),
        ("rdf/terms.py", "from cqels_opt.query import algebra", "may import only"),
        ("lod/store.py", "from cqels_opt import trace", "never back"),
        ("spark/load.py", "from cqels_opt import Engine", "never back"),
        ("verify.py", "from cqels_opt.windows import frontier", "may import only"),
        ("cli/options.py", "from cqels_opt.bench import harness", "never back"),
        ("attic/junk.py", "", "no storey"),
    ],
)
def test_a_broken_rule_is_seen(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    package = tmp_path / "cqels_opt"
    for room in ("plans", "stats", "rdf", "lod", "trace", "query", "windows", "operators", "spark"):
        (package / room).mkdir(parents=True)
    for module in ("engine.py", "errors.py"):
        (package / module).write_text("")
    (package / file).parent.mkdir(exist_ok=True)
    (package / file).write_text(text)
    (broken,) = violations(package)
    assert broken.startswith(file)
    assert complaint in broken


def test_what_is_allowed_is_allowed(tmp_path: Path) -> None:
    package = tmp_path / "cqels_opt"
    for room in ("plans", "stats", "rdf", "lod", "query", "windows", "operators", "spark"):
        (package / room).mkdir(parents=True)
    (package / "errors.py").write_text("")
    (package / "engine.py").write_text("from cqels_opt import spark\nfrom .lod import store")
    (package / "plans/cost.py").write_text("import math\nimport numpy as np\nfrom cqels_opt.errors import RunError")
    (package / "spark/stages.py").write_text("import os\nfrom pyspark.sql import functions\nfrom ..operators import probe")
    (package / "windows/content.py").write_text("from cqels_opt.query.algebra import Window")
    assert violations(package) == []


def circles(package: Path) -> list[list[str]]:
    """Files that import each other, directly or through others, wherever in the file the import stands."""
    found = dict(modules(package))
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, file in found.items():
        for name, _ in imports(module, ast.parse(file.read_text(encoding="utf-8")), is_package=file.name == "__init__.py"):
            inner = name.removeprefix("cqels_opt.")
            target = next((other for other in (inner, inner.rpartition(".")[0]) if other in found), None)
            if name.startswith("cqels_opt.") and target is not None and target != module and "" not in (module, target):
                graph.add_edge(module, target)
    return sorted(sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1)


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(PACKAGE) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "lod").mkdir()
    (tmp_path / "lod/a.py").write_text("from cqels_opt.lod.b import x")
    (tmp_path / "lod/b.py").write_text("def f():\n    from cqels_opt.lod import a")
    assert circles(tmp_path) == [["lod.a", "lod.b"]]
