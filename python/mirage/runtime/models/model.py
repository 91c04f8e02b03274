"""A loaded model, which is called like the module from which it was exported.

model = mirage.runtime.load("llama.mirage")
logits = model(ids, cache_position=position)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mirage.runtime.arguments.index_check import IndexCheck, checked_launcher
from mirage.runtime.dispatch.in_place_stores import same_memory
from mirage.runtime.dispatch.layouts import Arranged, Found, Layout
from mirage.runtime.errors import ArgumentShapeError, NoGpuError
from mirage.runtime.launching.captured import CapturedModel
from mirage.runtime.launching.cuda_driver import compute_capability, runs_on, wrong_chip
from mirage.runtime.launching.executable import Executable
from mirage.runtime.launching.run_plan import Launcher, Steps
from mirage.runtime.models.direct import Direct, direct
from mirage.runtime.models.model_arguments import ModelArguments
from mirage.runtime.models.model_artifact import ModelArtifact
from mirage.runtime.models.model_manifest import Fixed, Given, Result
from mirage.runtime.models.model_sizes import class_at, model_at
from mirage.runtime.models.model_state import State, model_state
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.runtime.serialization.sizes import Classes

if TYPE_CHECKING:
    import torch

KEPT_SIZES = 1024
"""The most sizes whose steps are kept."""
EMULATOR = "mirage.emulator.tensors"
"""The module that runs kernels without a GPU. It is not part of the runtime, which therefore knows
only its name."""


class Model:
    """A model on a device, as a function of the arguments of its module.

    Calls launch on torch's current stream and return at once. They write to the tensors that the
    module writes to: arguments, and tensors of ``state`` (by their names; tensors of a state dict
    that are already on the device are the caller's own). Calls from several threads need a lock if
    there are updates.
    """

    def __init__(
        self,
        artifact: ModelArtifact,
        *,
        device: str | torch.device | None = None,
        state: Mapping[str, torch.Tensor] | None = None,
        shares: SizedModel | None = None,
        check_indices: bool = False,
    ) -> None:
        """Load a model. ``device`` is torch's current GPU by default; on "cpu" the kernels run in
        the emulator, which requires the whole package. ``state`` has the weights that the artifact
        refers to. ``shares`` is the same model for all sizes, whose state and code this model uses.
        With ``check_indices``, each call waits for its indices and raises an error if one is
        outside of its dimension.

        Raises :class:`~mirage.runtime.errors.ArtifactError`,
        :class:`~mirage.runtime.errors.NoGpuError`.
        """
        import torch

        self.artifact = artifact
        self.manifest = m = artifact.manifest
        self.device = chosen_device(m.name, m.chip, device)
        self._held: State = shares.held if shares else model_state(artifact, state, self.device)
        self._arguments = ModelArguments(m, self.device)
        self._steps = Steps(m.plan, self.device)
        code: dict[str, Executable] = {}
        if self.device.type != "cpu":
            code = executables(artifact, self.device, shares.code if shares else {})
        self._launch = launcher(artifact, code)
        self._direct = None if check_indices else direct_call(artifact, code, self._held)
        self._check_indices = IndexCheck(m.bounds, m.memories) if check_indices else None
        if check_indices:
            parts = [artifact.part(i).manifest for i in range(len(m.parts))]
            self._launch = checked_launcher(self._launch, parts)
        self._arranged = Arranged([_found(r) for r in m.results])
        self._no_grad = torch.no_grad

    def __repr__(self) -> str:
        m = self.manifest
        return (
            f"<mirage model {m.name!r} for {m.chip} on {self.device}: {len(m.arguments)} "
            f"arguments, {len(m.state)} tensors of state, {len(m.plan.steps)} steps>"
        )

    @property
    def state(self) -> Mapping[str, torch.Tensor]:
        """The tensors that the model holds, by their names."""
        return self._held.by_name

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the model and return the module's results. Raises
        :class:`~mirage.runtime.errors.CallError` for invalid arguments."""
        found = None if self._direct is None else self._direct(args, named)
        return self.run(self.memories(args, named)) if found is None else found

    def captured(self, *args: Any, **named: Any) -> CapturedModel:
        """Return the model as one CUDA graph, for calls with arguments like these; see
        :mod:`mirage.runtime.launching.captured`. Nothing is written to. Raises
        :class:`~mirage.runtime.errors.CallError`, and :class:`~mirage.runtime.errors.CaptureError`
        if the model cannot be captured."""
        return CapturedModel(self, args, named)

    def memories(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[torch.Tensor]:
        """Return the tensors of a call: those among the arguments, then the state. Raises
        :class:`~mirage.runtime.errors.CallError`."""
        return [*self._arguments(args, named, self._held.tensors), *self._held.tensors]

    def run(self, memories: Sequence[torch.Tensor], *, write: bool = True) -> Any:
        """Return the module's results for such tensors; without ``write``, no tensor is written
        to."""
        with self._no_grad():
            if self._check_indices is not None:
                self._check_indices(memories)
            outputs = self._steps(memories, self._launch, write=write)
            updates = self.manifest.plan.updates
            for place, value in zip(updates, outputs):
                if write and not same_memory(memories[place], value):
                    memories[place].copy_(value)
            # for PyTorch's calls, a single number is a tensor on the CPU
            computed = [y.to(self.device) for y in outputs[len(updates) :]]
            results = self._arranged(computed, memories)
        return self.manifest.result_structure.unflatten(iter(results))


class SizedModel:
    """A model for a range of sizes, as a function of the arguments of its module; see
    :class:`Model`."""

    def __init__(
        self,
        artifact: ModelArtifact,
        *,
        device: str | torch.device | None = None,
        state: Mapping[str, torch.Tensor] | None = None,
        check_indices: bool = False,
    ) -> None:
        """Load a model; the arguments are those of :class:`Model`."""
        self.artifact = artifact
        self.manifest = m = artifact.manifest
        self.device = chosen_device(m.name, m.chip, device)
        self.held: State = model_state(artifact, state, self.device)
        self.code: dict[str, Executable] = {}
        if self.device.type != "cpu":
            for folder, part in artifact.parts.items():
                self.code[folder] = Executable(part)
                self.code[folder].prepare(self.device.index or 0)
        self._arguments = ModelArguments(m, self.device)
        self._known: dict[int, Model] = {}
        self._check_indices = check_indices
        size = m.size
        assert size is not None
        most = (*(p.at_most for p in size.smaller), size.stated)
        wanted = m.arguments[size.arguments[0]]
        assert isinstance(wanted, Given)
        each = wanted.spec.shape[0] // size.stated
        self._classes = Classes(size.at_least, size.at_most, most, size.arguments[0], each)
        self._direct = [
            None if check_indices else direct_call(class_at(artifact, n), self.code, self.held)
            for n in range(len(most))
        ]

    def __repr__(self) -> str:
        size = self.manifest.size
        assert size is not None
        return (
            f"<mirage model {self.manifest.name!r} for {self.manifest.chip} on {self.device}, "
            f"{size.name} from {size.at_least} to {size.at_most}>"
        )

    @property
    def state(self) -> Mapping[str, torch.Tensor]:
        """The tensors that the model holds, by their names."""
        return self.held.by_name

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the model and return the module's results. Raises
        :class:`~mirage.runtime.errors.CallError` for invalid arguments."""
        number = self._classes.number(args)
        direct = None if number is None else self._direct[number]
        found = None if direct is None else direct(args, named)
        return self._at_size(args, named)(*args, **named) if found is None else found

    def captured(self, *args: Any, **named: Any) -> CapturedModel:
        """Return the model at the size of these arguments as one CUDA graph; see
        :meth:`Model.captured`."""
        return self._at_size(args, named).captured(*args, **named)

    def _at_size(self, args: Sequence[Any], named: Mapping[str, Any]) -> Model:
        size = self._size_of(self._arguments.leaves(args, named))
        model = self._known.get(size)
        if model is None:
            artifact = model_at(self.artifact, size)
            if len(self._known) >= KEPT_SIZES:
                self._known.clear()
            model = self._known[size] = Model(
                artifact, device=self.device, shares=self, check_indices=self._check_indices
            )
        return model

    def _size_of(self, leaves: Sequence[Any]) -> int:
        """Return the size of the arguments; other arguments are checked later."""
        size = self.manifest.size
        assert size is not None
        number = size.arguments[0]
        wanted = self.manifest.arguments[number]
        assert isinstance(wanted, Given)
        each = wanted.spec.shape[0] // size.stated
        x = leaves[number]
        shape: tuple[int, ...] = tuple(x.shape) if hasattr(x, "shape") else ()
        if not shape or len(shape) != len(wanted.spec.shape) or shape[0] % each:
            rows = "n" if each == 1 else f"{each} * n"
            inner = "".join(f", {n}" for n in wanted.spec.shape[1:])
            got = shape or type(x).__name__
            raise ArgumentShapeError(
                f"{wanted.spec.name}: expected a tensor of shape ({rows}{inner}), got {got}"
            )
        return int(shape[0]) // each


def _found(result: Result | Fixed) -> Found:
    if isinstance(result, Fixed):
        return result.value
    import torch

    return Layout(
        getattr(torch, TORCH_NAMES[result.dtype]), result.shape, result.strides, result.offset,
        result.bytes, result.memory, result.group,
    )  # fmt: skip


def chosen_device(name: str, chip: str, device: str | torch.device | None) -> torch.device:
    """Return the device to run on. Raises :class:`WrongChipError` and :class:`NoGpuError`."""
    try:
        import torch
    except ImportError:
        raise NoGpuError("cannot load a model: torch is not installed") from None
    wanted = torch.device("cuda" if device is None else device)
    if wanted.type == "cpu":
        return wanted
    if wanted.type != "cuda":
        raise NoGpuError(f"cannot run on {wanted}: expected a CUDA device or 'cpu'")
    if not torch.cuda.is_available():
        built = "no GPU was found" if torch.version.cuda else "this torch was built without CUDA"
        here = find_spec(EMULATOR.rpartition(".")[0]) is not None
        instead = "with device='cpu' its kernels are executed in the emulator, for tests"
        remedy = instead if here else "the runtime alone runs its kernels on a GPU only"
        raise NoGpuError(f"cannot load model {name!r}: {built}; {remedy}")
    index: Any = wanted.index  # None if it is not specified
    number = torch.cuda.current_device() if index is None else index
    capability = compute_capability(number)
    if not runs_on(chip, capability):
        raise wrong_chip(f"model {name!r}", chip, number, capability, "export")
    return torch.device("cuda", number)


def executables(
    artifact: ModelArtifact, device: torch.device, code: Mapping[str, Executable]
) -> dict[str, Executable]:
    """Return the parts on a GPU, by their folders, ready to be launched; ``code`` has the same
    parts at their largest size. Raises the errors of :meth:`Executable.prepare`."""
    found: dict[str, Executable] = {}
    for number, part in enumerate(artifact.manifest.parts):
        if part.folder not in found:
            found[part.folder] = Executable(artifact.part(number), code.get(part.folder))
            found[part.folder].prepare(device.index or 0)
    return found


def launcher(artifact: ModelArtifact, code: Mapping[str, Executable]) -> Launcher:
    """Return a function that runs the parts: with ``code`` or, without it, in the emulator. Raises
    :class:`NoGpuError`."""
    parts = artifact.manifest.parts
    if parts and not code:
        run = emulator()
        return lambda part, given, _: run(artifact.part(part), given)
    ready = [code[part.folder] for part in parts]
    return lambda part, given, follows: ready[part](inputs=given, follows=follows)


def direct_call(
    artifact: ModelArtifact, code: Mapping[str, Executable], held: State
) -> Direct | None:
    """Return the direct call of the model, without its plan, if it is one part on a GPU; otherwise
    None."""
    m = artifact.manifest
    if len(m.parts) != 1 or not code:
        return None
    folder = m.parts[0].folder
    return direct(m, artifact.part(0).manifest, code.get(folder), held.tensors)


def emulator() -> Callable[[Artifact, list[torch.Tensor]], Sequence[torch.Tensor]]:
    """Return the function that executes a part on the CPU. Raises :class:`NoGpuError` if only the
    runtime is installed."""
    try:
        return import_module(EMULATOR).run_on_tensors
    except ImportError as e:
        raise NoGpuError(
            f"cannot run on the CPU: kernels are executed in the emulator there, which is not part "
            f"of the runtime ({e}); install the whole package, or load the model on a GPU"
        ) from None
