"""Python passes in a pass manager, and that C++ and Python declare the same passes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from mirage import ir
from mirage.cost.target import DEFAULT_CHIP
from mirage.passes import registry
from mirage.passes.option_text import PassOptionError, option_name
from mirage.passmanager import PassManager

ROOT = Path(__file__).parents[3]
TBLGEN = Path("/usr/lib/llvm-22/bin/llvm-tblgen")

MODULE = """
module {
  func.func @f(%a: i32) -> i32 {
    %c = arith.constant 0 : i32
    %s = arith.addi %a, %c : i32
    return %s : i32
  }
}
"""


VERIFIED = """
kernel.graph @f(%x: tensor<4xf16>) -> tensor<4xf16> attributes {form = #kernel.form<verified>} {
  kernel.return %x : tensor<4xf16>
}
"""


@pytest.fixture
def module() -> Any:
    with ir.Context(), ir.Location.unknown():
        yield ir.Module.parse(MODULE)


def test_python_and_cpp_passes_run_in_one_pipeline(module: ir.Module) -> None:
    manager = PassManager()
    manager.add("canonicalize")
    registry.add_to(manager, "mirage-test-bridge", action="annotate", text="between", values=(4,))
    manager.add("cse")
    manager.run(module.operation)
    assert "arith.addi" not in str(module)
    assert 'bridge.text = "between"' in str(module)
    assert "array<i64: 4>" in str(module)


def test_a_textual_pipeline_runs_the_pass_in_a_worker() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(VERIFIED)
        PassManager.parse("builtin.module(mirage-select{keep=1})").run(module.operation)
        assert "#kernel.form<selected>" in str(module)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("fail", "what is wrong"),
        ("fail-at-op", "what is wrong"),
        ("raise", "internal error in pass 'mirage-test-bridge': KeyError: 'what is wrong'"),
        ("invalid", "requires attribute 'function_type'"),
    ],
)
def test_failure_raises_with_diagnostics(module: ir.Module, action: str, message: str) -> None:
    manager = PassManager()
    registry.add_to(manager, "mirage-test-bridge", action=action, text="what is wrong")
    with pytest.raises(ir.MLIRError) as caught:
        manager.run(module.operation)
    assert any(message in diagnostic.message for diagnostic in caught.value.error_diagnostics)


def test_remarks_and_warnings_reach_handlers(module: ir.Module) -> None:
    seen: list[tuple[str, str]] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        seen.append((diagnostic.severity.name, diagnostic.message))
        return True

    manager = PassManager()
    registry.add_to(manager, "mirage-test-bridge", action="remark", text="look")
    registry.add_to(manager, "mirage-test-bridge", action="warn", text="hmm")
    with module.context.attach_diagnostic_handler(collect):
        manager.run(module.operation)
    assert seen == [("REMARK", "look"), ("WARNING", "hmm")]


def test_unknown_passes_and_options_are_named(module: ir.Module) -> None:
    with pytest.raises(registry.PassError, match="no python pass is named 'mirage-nothing'"):
        registry.add_to(PassManager(), "mirage-nothing")
    with pytest.raises(registry.PassError, match="no python pass is named 'mirage-worker'"):
        registry.load("mirage-worker")
    with pytest.raises(PassOptionError, match="'speed'"):
        registry.add_to(PassManager(), "mirage-test-bridge", speed=1)


SHIPPED = ROOT / "include/mirage/PythonPasses/Passes.td"
OF_TESTS = ROOT / "test/PythonPasses/Bridge/Passes.td"


def declared_passes(file: Path) -> dict[str, dict[str, Any]]:
    """The passes of a file: by argument, the summary and the options' defaults as text."""
    dump = subprocess.run(
        [
            TBLGEN,
            "--dump-json",
            "-I/usr/lib/llvm-22/include",
            f"-I{ROOT}/include",
            file,
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    records = json.loads(dump.stdout)
    declared: dict[str, dict[str, Any]] = {}
    for name in records["!instanceof"]["PassBase"]:
        record = records[name]
        options = [records[option["def"]] for option in record["options"]]
        declared[record["argument"]] = {
            "summary": record["summary"],
            "help": {option["argument"]: option["description"] for option in options},
            "options": {
                option["argument"]: (option["type"], option.get("defaultValue") or "")
                for option in options
            },
        }
    return declared


def as_cpp(value: object) -> str:
    """Return a default of an options dataclass in the notation of Passes.td."""
    if value == () or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


DECLARED = {**declared_passes(SHIPPED), **declared_passes(OF_TESTS)}


@pytest.mark.parametrize("name", registry.names())
def test_cpp_and_python_declare_the_same_pass(name: str) -> None:
    python_pass = registry.load(name)
    assert python_pass.name == name
    assert name in DECLARED, f"{name} is missing in {SHIPPED.relative_to(ROOT)}"
    assert DECLARED[name]["summary"] == python_pass.summary
    defaults = python_pass.options()
    options = {option_name(f): as_cpp(getattr(defaults, f.name)) for f in fields(defaults)}
    declared = {key: text for key, (_, text) in DECLARED[name]["options"].items()}
    if declared.get("chip") == "::mirage::defaultChip":  # of the table of chips
        declared["chip"] = as_cpp(DEFAULT_CHIP)
    assert declared == options
    said = {option_name(f): f.metadata["help"] for f in fields(python_pass.options)}
    assert DECLARED[name]["help"] == said


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_every_declared_pass_is_written(name: str) -> None:
    assert name in registry.names()


def test_passes_of_tests_are_not_shipped() -> None:
    assert {n for n in registry.names() if "test" in n} == set(declared_passes(OF_TESTS))
    assert not [n for n in declared_passes(SHIPPED) if "test" in n]
    with pytest.raises(ValueError, match="mirage-test-bridge"), ir.Context():
        PassManager.parse("builtin.module(mirage-test-bridge)")


def test_the_registry_needs_no_bindings() -> None:
    code = (
        "import sys; import mirage.passes.registry as r; r.names();"
        "sys.exit('mirage.ir' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
