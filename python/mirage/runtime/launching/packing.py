"""Parameter lists of kernels, in the form that the CUDA driver reads."""

from __future__ import annotations

import ctypes
from typing import Any

from mirage.runtime.launching.tensor_maps import TensorMapSlot
from mirage.runtime.serialization.manifest import KernelLaunch


class Packing:
    """Parameter lists of all kernels of an artifact, laid out once.

    Kernel parameters are addresses, tensor maps made of one, or the program's ``size``. Each has a
    slot with the address; ``kernelParams`` of a launch is an array of pointers to slots or tensor
    maps, so a call only has to write the slots and call ``update_maps``.
    """

    def __init__(self, launches: tuple[KernelLaunch, ...], size: int = 0) -> None:
        count = sum(len(k.arguments) for k in launches)
        self.slots = (ctypes.c_uint64 * max(count, 1))()
        base, width = ctypes.addressof(self.slots), ctypes.sizeof(ctypes.c_uint64)
        self.uses: dict[tuple[str, int], list[tuple[int, int]]] = {}  # buffer -> (slot, offset)
        self.params: list[int] = []  # address of each launch's array of pointers
        self._arrays: list[Any] = []  # keeps them alive
        self._maps: list[tuple[int, TensorMapSlot]] = []  # by slot
        slot = 0
        for launch in launches:
            pointers = (ctypes.c_void_p * max(len(launch.arguments), 1))()
            for i, argument in enumerate(launch.arguments):
                pointers[i] = base + slot * width
                if argument.map is not None:
                    tensor_map = TensorMapSlot(argument.map)
                    self._maps.append((slot, tensor_map))
                    pointers[i] = tensor_map.pointer
                if argument.kind == "size":
                    self.slots[slot] = size  # the driver reads the lower half
                else:
                    self.uses.setdefault((argument.kind, argument.index), []).append(
                        (slot, argument.offset)
                    )
                slot += 1
            self._arrays.append(pointers)
            self.params.append(ctypes.addressof(pointers))

    def update_maps(self) -> None:
        """Encode the tensor maps for the addresses in the slots. Raises :class:`DriverError`."""
        for slot, tensor_map in self._maps:
            tensor_map.update(self.slots[slot])

    def slots_of(self, kind: str, count: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return, for each buffer of a kind, the slots that take its address, with an offset in
        bytes."""
        return tuple(tuple(self.uses.get((kind, i), ())) for i in range(count))
