"""Limits on the length of functions and files, on the number of files with the same name, and on
the number of places where the code tests an op's class. Code that exceeds these limits must be
split, be named after its contents, or query a kind.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from functions_of_c import functions_of_c
from mirage.semantics import positions
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ops import kinds
from mirage.semantics.ops.kernel_ops import Composite
from mirage.semantics.ugraph import Op

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "python/mirage"

LONGEST_FUNCTION = 60
LONG_FUNCTIONS = {
    "test/python/support/emulator_support/ptx_kernels.py:wgmma_tile",
    "test/python/support/emulator_support/ptx_matmul.py:matmul",
    "test/python/support/written_kernels/warpgroup_attention.py:text",
    "test/python/support/written_kernels/warpgroup_graphs.py:text",
    "test/python/support/written_kernels/warpgroup_loops.py:text",
}
"""Functions that may have more lines: each writes the text of one kernel, line by line."""

LONGEST_FILE = 500
COMPILED = {".c", ".cpp", ".h", ".td"}
LONG_FILES: dict[str, int] = {}
"""Files that may have more lines: none."""

IN_EACH_PACKAGE = {"__init__", "__main__", "errors"}
TWINS: dict[str, set[str]] = {
    "compile": {"cli", "compiler"},
    "export": {"cli", "pipeline"},
    "optimize": {"cli", "pipeline"},
    "rank": {"passes", "pipeline"},
    "search": {"cli", "passes", "pipeline"},
    "select": {"passes", "pipeline"},
    "shortlist": {"passes", "pipeline"},
    "skip_steps": {"passes", "pipeline", "transforms"},
    "stabilize": {"passes", "pipeline", "transforms"},
    "verify": {"cli", "passes", "pipeline"},
}
"""Names that occur in several packages: a stage, or the function of a command, has the same name as
its command and its pass. Nothing is added."""

KINDS = {
    *(name for name, each in vars(kinds).items() if isinstance(each, type)),
    Composite.__name__,
}
CLASS_TESTS = {
    "cli": 1,
    "cost": 29,
    "frontend": 4,
    "mlir_io": 5,
    "pipeline": 2,
    "search": 27,
    "semantics": 52,
    "transforms": 67,
    "verify": 75,
}
"""Places that test whether an op is of one class, by package; entries of tables are such places. An
analysis uses the facts of a kind or an op (``semantics/ops/kinds.py``) unless it is about that
class; if there are fewer places, the numbers here are lowered."""


@cache
def trees() -> tuple[tuple[Path, ast.Module], ...]:
    files = sorted(PACKAGE.rglob("*.py"))
    return tuple((path.relative_to(PACKAGE), ast.parse(path.read_text())) for path in files)


def subclasses(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


@cache
def op_classes() -> frozenset[str]:
    for path, _ in trees():
        if path.parts[0] in CLASS_TESTS:
            import_module(".".join(("mirage", *path.with_suffix("").parts)))
    ours = {c.__name__ for c in subclasses(Op) if c.__module__.startswith("mirage.")}
    assert {Alternatives.__name__, positions.Iota.__name__} <= ours
    return frozenset(ours - KINDS)


def names_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def names_of_ops(tree: ast.Module, classes: frozenset[str]) -> set[str]:
    """Return the names of op classes in a file: without names that it imports from elsewhere (the
    search's moves), but with names of unions and tuples of classes."""
    ops = set(classes)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if not node.module.startswith("mirage.semantics"):
                ops.difference_update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp | ast.Tuple):
            parts = [n for n in ast.walk(node.value) if isinstance(n, ast.expr)]
            plain = all(isinstance(n, ast.BinOp | ast.Tuple | ast.Name) for n in parts)
            if plain and not ops.isdisjoint(names_in(node.value)):
                ops.update(n.id for n in node.targets if isinstance(n, ast.Name))
    return ops


def class_tests(tree: ast.Module, known: frozenset[str]) -> int:
    """Calls of ``isinstance``, cases and comparisons of a type that name an op's class, and keys of
    tables that are one: each is a place that tests a class."""
    classes = names_of_ops(tree, known)

    def named(*nodes: ast.AST) -> bool:
        return any(not classes.isdisjoint(names_in(node)) for node in nodes)

    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "isinstance" in names_in(node.func):
            count += len(node.args) == 2 and named(node.args[1])
        elif isinstance(node, ast.MatchClass):
            count += named(node.cls)
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            count += any(is_type(side) for side in sides) and named(*sides)
        elif isinstance(node, ast.Dict):
            count += sum(is_class(key, classes) for key in node.keys)
    return count


def is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and set(names_in(node.func)) == {"type"}


def is_class(key: ast.AST | None, classes: set[str]) -> bool:
    return isinstance(key, ast.Name | ast.Attribute) and not classes.isdisjoint(names_in(key))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a body, including nested ones."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
            yield each
            yield from statements(each)


def long_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield f"{path}:{node.name}"


def test_functions_are_short() -> None:
    long = {name for path, tree in trees() for name in long_functions(path, tree)}
    assert long == set(), "split what does more than one thing"


def test_functions_of_tests_and_scripts_are_short() -> None:
    long: set[str] = set()
    for folder in ("benchmarks", "examples", "test", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if text.count("\n") > LONGEST_FUNCTION:
                long.update(long_functions(path.relative_to(ROOT), ast.parse(text)))
    assert long == LONG_FUNCTIONS, "split what does more than one thing"


def test_functions_of_c_are_short() -> None:
    """The limit also applies to the compiler and to the launcher."""
    found = {
        f"{path.relative_to(ROOT)}:{each.line} {each.head}": each.lines
        for folder in ("include", "lib", "python", "test", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".c", ".cpp", ".h")
        for each in functions_of_c(path.read_text())
    }
    assert len(found) > 500
    long = {name: lines for name, lines in found.items() if lines > LONGEST_FUNCTION}
    assert long == {}, "split what does more than one thing"


def test_functions_of_c_are_found() -> None:
    text = """
#define BODY {
namespace a { // {
class B : C<int()> {
public:
  B(int x)
      : C(x), y(x) {}
  bool operator==(const B &other) const {
    if (other.y) {
      return "{" == other.name;
    }
    return '{' == 0;
  }
  int y = 0, table[2] = {1, 2};
};
template <typename T> static T f(
    T x = 3) {
  auto g = [&] { return x; };
  struct Local {
    int h() { return 1; }
  };
  return g();
}
static const int values[] = {1};
auto lambda = [](int x) {
  return x;
};
} // namespace a
"""
    found = [(f.line, f.lines) for f in functions_of_c(text)]
    assert found == [(6, 2), (8, 6), (16, 8), (25, 3)]


def test_files_are_short() -> None:
    folders = ("include", "lib", "python/mirage/runtime/native")
    ours = (p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in COMPILED)
    files = (*PACKAGE.rglob("*.py"), *(ROOT / "test/python").rglob("*.py"), *ours)
    lines = {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in files}
    long = {name: count for name, count in lines.items() if count > LONGEST_FILE}
    assert long == LONG_FILES, "look for the seam"


def places_of_names(root: Path, prefix: str = "") -> dict[str, list[str]]:
    """Return for each file name the packages that have such a file."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob(f"{prefix}*.py")):
        name = path.stem.removeprefix(prefix)
        found.setdefault(name, []).append(path.relative_to(root).parts[0])
    return {name: places for name, places in found.items() if name not in IN_EACH_PACKAGE}


def test_names_of_files_occur_once() -> None:
    names = places_of_names(PACKAGE)
    several = {name: set(places) for name, places in names.items() if len(places) > 1}
    assert several == TWINS, "name a file for what is in it"
    assert all(len(names[name]) == len(TWINS[name]) for name in TWINS)


def test_names_of_tests_occur_once() -> None:
    """Tests of benchmarks are excluded: they have the names of the benchmarks."""
    names = places_of_names(ROOT / "test/python", "test_")
    apart = {name: [p for p in places if p != "benchmarks"] for name, places in names.items()}
    several = {name for name, places in apart.items() if len(places) > 1}
    assert several <= TWINS.keys(), "name a test for what it is about"


def test_class_tests_do_not_grow() -> None:
    classes = op_classes()
    counts: Counter[str] = Counter()
    for path, tree in trees():
        if found := class_tests(tree, classes):
            counts[path.parts[0]] += found
    assert dict(counts) == CLASS_TESTS, "ask for a kind, or write down the smaller number"


def test_the_count_sees_all_forms() -> None:
    text = """
isinstance(x, Matmul)
isinstance(x, (Reduce, str))
isinstance(x, Reduce | Matmul)
isinstance(x, ugraph.Matmul)
isinstance(x, View)
match x:
    case Matmul():
        pass
    case Elementwise():
        pass
{Matmul: 1, ugraph.Reduce: 2, View: 3, "Matmul": 4, **RULES}
type(x) is Matmul
type(x) in (Matmul, Reduce)
type(x) is type(y)
type(x) is Elementwise
"""
    assert class_tests(ast.parse(text), op_classes()) == 9


def test_the_count_knows_what_a_name_stands_for() -> None:
    text = """
from mirage.search.kernel.derivations.moves import Load
from mirage.semantics.ugraph import Cast, Matmul, Unary, View
SIMPLE = Unary | Cast
VIEWS = (View,)
isinstance(x, Load)
isinstance(x, SIMPLE)
isinstance(x, VIEWS)
isinstance(x, Matmul)
"""
    assert class_tests(ast.parse(text), op_classes()) == 2
