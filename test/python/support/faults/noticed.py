"""Whether a broken kernel is noticed, either by a check or because its results change."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from mirage.emulator import EmulatorError
from mirage.emulator.run_artifact import random_inputs, run_artifact
from mirage.runtime.serialization.artifact import Artifact

from faults.ptx_mutants import Kind, mutants


class Original:
    """A correct kernel, whose PTX tests break."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.ptx = artifact.ptx()

    def notices(self, broken: str) -> bool:
        """Return whether a check stops ``broken`` PTX, or its results differ in any bit."""
        found = self._run(broken)
        return found is None or any(
            not np.array_equal(a, b) for a, b in zip(self._right, found, strict=True)
        )

    def unnoticed(self, kind: Kind) -> list[str]:
        """Return the instructions of a kind that can be left out, each by itself, without being
        noticed."""
        found = list(mutants(self.ptx, kind))
        assert found
        return [m.original for m in found if not self.notices(m.ptx)]

    @cached_property
    def _right(self) -> list[np.ndarray]:
        found = self._run(self.ptx)
        assert found is not None
        return found

    def _run(self, ptx: str) -> list[np.ndarray] | None:
        """Run the PTX; None if a check stops the run."""
        manifest = self.artifact.manifest
        files = {**self.artifact.files, manifest.modules[0].ptx: ptx.encode()}
        try:
            inputs = random_inputs(manifest.inputs)
            run = run_artifact(Artifact(manifest, files), inputs, stats=False)
        except EmulatorError:
            return None
        return list(run.outputs)
