"""Importing the backend costs little until it is used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from thorough import some_of

LOADED = """
import sys
{what}
print(*sys.modules, sep="\\n")
"""


@pytest.mark.parametrize(
    ("what", "unwanted"),
    some_of(
        [
            (
                "import mirage.torch",
                ["torch._dynamo", "torch_mlir", "mirage.verify", "mirage.search"],
            ),
            ("import mirage.torch; mirage.torch.backend", ["torch_mlir"]),
        ],
        every=2,
    ),
)
def test_what_is_not_needed_is_not_imported(what: str, unwanted: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(what=what)],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert not set(unwanted).intersection(done.stdout.split())


def test_other_names_are_no_attributes() -> None:
    import mirage.torch

    with pytest.raises(AttributeError, match="has no attribute 'frontend'"):
        _ = mirage.torch.frontend  # type: ignore[attr-defined]
    assert mirage.torch.backend.__name__ == "backend"
    assert all(hasattr(mirage.torch, name) for name in mirage.torch.__all__)
