"""Tensor maps in manifests and parameter lists; the driver's encoding needs a GPU."""

from __future__ import annotations

import ctypes
import json

import pytest
from mirage.runtime.errors import UnreadableArtifactError
from mirage.runtime.launching import tensor_maps
from mirage.runtime.launching.packing import Packing
from mirage.runtime.serialization.manifest import (
    Argument,
    KernelLaunch,
    Manifest,
    Module,
    TensorMap,
    TensorSpec,
)
from mirage.runtime.serialization.manifest_reader import from_json

MAP = TensorMap((128, 64), "f16", (64, 64), 128)
X = TensorSpec("x", (128, 64), (64, 1), "f16")
Y = TensorSpec("y", (128, 64), (64, 1), "f16")
LAUNCH = KernelLaunch(
    module=0,
    entry="f",
    grid=(1, 1, 1),
    block=(160, 1, 1),
    shared_bytes=0,
    arguments=(Argument("input", 0), Argument("output", 0), Argument("input", 0, 16, map=MAP)),
)
MANIFEST = Manifest(
    "f", "test", "sm_90a", "8.0", (X,), (Y,), (), (Module("k.ptx", "0" * 64),), (LAUNCH,)
)


def test_round_trip() -> None:
    data = json.loads(json.dumps(MANIFEST.to_json()))
    assert from_json(data, "here") == MANIFEST


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("box", [64], "2 extents from 1 to 256"),
        ("box", [512, 64], "2 extents from 1 to 256"),
        ("shape", [], "1 to 5 positive extents"),
        ("swizzle", 48, "0, 32, 64 or 128"),
        ("dtype", "f8", "one of f16"),
        ("kind", 1, "no such key"),
    ],
)
def test_bad_maps(key: str, value: object, message: str) -> None:
    data = json.loads(json.dumps(MANIFEST.to_json()))
    data["kernels"][0]["arguments"][2]["map"][key] = value
    with pytest.raises(UnreadableArtifactError, match=message):
        from_json(data, "here")


def test_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third parameter points to 128 aligned bytes, which follow the address in its slot."""
    encoded: list[int] = []

    def encode(spec: TensorMap, address: int) -> bytes:
        assert spec == MAP
        encoded.append(address)
        return address.to_bytes(8, "little") * 16

    monkeypatch.setattr(tensor_maps, "encode", encode)
    packing = Packing((LAUNCH,))
    (params,) = packing.params
    pointers = (ctypes.c_void_p * 3).from_address(params)
    assert packing.slots_of("input", 1) == (((0, 0), (2, 16)),)
    for address in (1 << 20, 1 << 21, 1 << 20, 1 << 20):
        for slot, offset in packing.slots_of("input", 1)[0]:
            packing.slots[slot] = address + offset
        packing.update_maps()
        place = pointers[2]
        assert place is not None
        assert place % tensor_maps.ALIGNMENT == 0
        assert ctypes.string_at(place, 128) == (address + 16).to_bytes(8, "little") * 16
        assert ctypes.c_uint64.from_address(pointers[0] or 0).value == address
    assert encoded == [(1 << 20) + 16, (1 << 21) + 16]
