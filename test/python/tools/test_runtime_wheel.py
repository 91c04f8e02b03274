"""The wheel of the runtime, in an environment with torch and nothing else of ours."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from mirage.runtime import write_artifact
from mirage.runtime.dispatch.plan import Call, Device, ElementType, Plan
from mirage.runtime.models.model_artifact import ModelArtifact, write_model
from mirage.runtime.models.model_manifest import Given, Held, ModelManifest, Result
from mirage.runtime.models.structure import Structure
from small_artifacts.small_artifact import small_artifact

ROOT = Path(__file__).parents[3]
OLDEST = (3, 10)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a virtual environment: torch with its dependencies, and the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    tool = [sys.executable, str(ROOT / "tools/build-runtime-wheel.py"), str(folder / "dist")]
    wheel = Path(subprocess.run(tool, check=True, capture_output=True, text=True).stdout.strip())
    again = wheel.read_bytes()
    subprocess.run(tool, check=True, capture_output=True)
    assert wheel.read_bytes() == again  # the same whenever it is built
    site = folder / "site"
    site.mkdir()
    for name in torch_and_its_needs():
        for file in distribution(name).files or ():
            top = file.parts[0]
            source = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and source.exists():
                (site / top).exists() or (site / top).symlink_to(source)
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--target", site, wheel], check=True, capture_output=True)
    return site


def torch_and_its_needs() -> set[str]:
    found: set[str] = set()
    open_ = ["torch"]
    while open_:
        name = open_.pop()
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        plain = [re.match(r"[\w.-]+", need) for need in needs if "extra ==" not in need]
        open_ += [m[0] for m in plain if m is not None and m[0] not in found]
    return found


def run(site: Path, code: str) -> Any:
    """Return the last output of the code, as JSON, with only these packages."""
    script = f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", script],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_it_imports_nothing_but_itself(environment: Path) -> None:
    names = run(
        environment,
        "import json, mirage.runtime\n"
        "[getattr(mirage.runtime, name) for name in mirage.runtime.__all__]\n"
        "files = [[n, getattr(m, '__file__', '')] for n, m in sys.modules.items()]\n"
        "print(json.dumps(files))",
    )
    own = [name for name, _ in names if name.partition(".")[0] == "mirage"]
    assert "mirage.runtime" in own
    assert {name.split(".")[1] for name in own if "." in name} == {
        "runtime",
        "errors",
        "lazy_names",
    }
    assert all(str(file).startswith(str(environment)) for name, file in names if name in own)
    assert not {"torch", "numpy", "cuda"} & {name for name, _ in names}  # they load on first use


def whole_model(path: Path) -> Path:
    """A model of PyTorch's calls only: a cache is updated, and summed up."""
    import torch
    from mirage.runtime.serialization.manifest import TensorSpec

    def spec(name: str, shape: tuple[int, ...], dtype: str = "f32") -> TensorSpec:
        return TensorSpec(name, shape, torch.empty(shape, device="meta").stride(), dtype)

    x, at = spec("x", (1, 4)), spec("at", (1,), "i64")
    plan = Plan(
        4,
        (
            Call("aten.mul.Tensor", (0, 2), (4,)),
            Call("aten.index_copy.default", (3, 1, 4), (5,), (("dim", 0),), True),
            Call("aten.sum.dim_IntList", (5,), (6,),
                 (("dim", (0,)), ("keepdim", False), ("dtype", ElementType("f64")))),
            Call("aten.full.default", (), (7,),
                 (("size", (2,)), ("fill_value", float("-inf")), ("dtype", None), ("layout", None),
                  ("device", Device()), ("pin_memory", None))),
        ),
        (5, 6, 7),
        (3,),
    )  # fmt: skip
    leaf = Structure()
    manifest = ModelManifest(
        name="small", compiler="mirage 0", torch="2", chip="sm_80",
        structure=Structure(
            "tuple", (Structure("tuple", (leaf,)), Structure("dict", (leaf,), ("at",)))
        ),
        arguments=(Given(x), Given(at)),
        state=(Held(spec("w", (1, 4)), "w", "weights.safetensors"),
               Held(spec("cache", (6, 4)), "cache", None, 0.0)),
        parts=(), files={},
        plan=plan,
        results=(Result((6, 4), (4, 1), "f32", 0, 96, 3, 0),
                 Result((4,), (1,), "f64", 0, 32, None, 1),
                 Result((2,), (1,), "f32", 0, 8, None, 2)),
        result_structure=Structure("dict", (leaf,) * 3, ("cache", "sum", "low")),
    )  # fmt: skip
    weights = {"weights.safetensors": {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]])}}
    return write_model(ModelArtifact(manifest, {}, weights), path)


def test_it_runs_what_needs_no_kernel(environment: Path, tmp_path: Path) -> None:
    path = whole_model(tmp_path / "small.mirage")
    found = run(
        environment,
        f"""
import json, torch, mirage.runtime
model = mirage.runtime.load({str(path)!r}, device="cpu")
x = torch.ones(1, 4)
first = model(x, at=torch.tensor([2]))
again = model(x * 2, at=torch.tensor([4]))
assert again["cache"].data_ptr() == model.state["cache"].data_ptr()
assert again["low"].tolist() == [float("-inf")] * 2
print(json.dumps([again["sum"].tolist(), again["cache"][2].tolist(), str(again["sum"].dtype)]))
""",
    )
    assert found == [[3.0, 6.0, 9.0, 12.0], [1.0, 2.0, 3.0, 4.0], "torch.float64"]


def test_what_it_cannot_do_it_says(environment: Path, tmp_path: Path) -> None:
    path = write_artifact(small_artifact(), tmp_path / "twice.mirage")
    found = run(
        environment,
        f"""
import json, torch, mirage, mirage.runtime
from mirage.runtime.models.model import chosen_device, emulator
torch.cuda.is_available = lambda: False
program = mirage.runtime.load({str(path)!r})
said = []
for attempt in (
    lambda: mirage.optimize, emulator, lambda: chosen_device("small", "sm_80", None)
):
    try:
        attempt()
    except Exception as error:
        said.append([type(error).__name__, str(error)])
print(json.dumps([repr(program), said]))
""",
    )
    assert found[0].startswith("<mirage artifact 'twice' for sm_80")
    (first, text), (second, why), (third, where) = found[1]
    assert first == "ImportError"
    assert "only the runtime is installed" in text
    assert second == "NoGpuError"
    assert "not part of the runtime" in why
    assert third == "NoGpuError"
    assert "runs its kernels on a GPU only" in where


def test_its_sources_are_of_the_oldest_python() -> None:
    files = [
        ROOT / "python/mirage" / name for name in ("__init__.py", "errors.py", "lazy_names.py")
    ]
    for path in (*files, *(ROOT / "python/mirage/runtime").rglob("*.py")):
        ast.parse(path.read_text(), feature_version=OLDEST)
