"""Arguments and results as nested tuples, lists and dictionaries, and as flat lists.

A structure has its leaves in order: tensors, numbers, strings and None. Structures are plain data,
so they can be read on another machine without the classes that they were made of: a named tuple is
read as one of the same name and fields, any other mapping as a dictionary.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mirage.runtime.errors import ArgumentStructureError
from mirage.runtime.serialization.json_reader import Json, Reader

KINDS = ("leaf", "tuple", "list", "dict", "named")


@dataclass(frozen=True)
class Structure:
    """A leaf, or children. The children of a ``dict`` or a ``named`` tuple have ``keys``; ``name``
    is that of a named tuple."""

    kind: str = "leaf"
    children: tuple[Structure, ...] = ()
    keys: tuple[str | int, ...] = ()
    name: str = ""

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    def places(self, where: str = "") -> Iterator[str]:
        """Yield the name of each leaf: ``x[0]``, ``cache['k']``."""
        if self.kind == "leaf":
            yield where
        for place, child in self._places(where):
            yield from child.places(place)

    def _places(self, where: str) -> Iterator[tuple[str, Structure]]:
        for number, child in enumerate(self.children):
            key = self.keys[number] if self.kind == "dict" else number
            named = self.kind == "named"
            yield f"{where}.{self.keys[number]}" if named else f"{where}[{key!r}]", child

    def flatten(self, value: Any, where: str) -> Iterator[Any]:
        """Yield the leaves of a value. Raises :class:`ArgumentStructureError` if it has another
        structure."""
        if self.kind == "leaf":
            yield value
            return
        for (place, child), item in zip(self._places(where), self._items(value, where)):
            yield from child.flatten(item, place)

    def _items(self, value: Any, where: str) -> Sequence[Any]:
        count = len(self.children)
        if self.kind == "dict":
            keys = ", ".join(map(repr, self.keys))
            if not isinstance(value, Mapping):
                raise ArgumentStructureError(
                    f"{where}: expected a dictionary of {keys}, got {_kind(value)}"
                )
            given = cast("Mapping[Any, Any]", value)
            if set(given) != set(self.keys):
                got = ", ".join(map(repr, given)) or "none"
                raise ArgumentStructureError(f"{where}: expected the keys {keys}, got {got}")
            return [given[key] for key in self.keys]
        if not isinstance(value, tuple | list):
            raise ArgumentStructureError(
                f"{where}: expected a {self.kind} of {count}, got {_kind(value)}"
            )
        items = cast("Sequence[Any]", value)
        if len(items) != count:
            raise ArgumentStructureError(f"{where}: expected {count} items, got {len(items)}")
        return items

    def unflatten(self, leaves: Iterator[Any]) -> Any:
        """Return the value that has these leaves."""
        if self.kind == "leaf":
            return next(leaves)
        items = [child.unflatten(leaves) for child in self.children]
        if self.kind == "dict":
            return dict(zip(self.keys, items, strict=True))
        if self.kind == "named":
            fields = [str(key) for key in self.keys]
            return namedtuple(self.name, fields)(*items)  # pyright: ignore[reportUntypedNamedTuple]
        return tuple(items) if self.kind == "tuple" else items

    def to_json(self) -> Json:
        """Return JSON data, which :func:`structure_of` reads."""
        data: Json = {"kind": self.kind}
        if self.kind != "leaf":
            data["children"] = [child.to_json() for child in self.children]
        if self.kind in ("dict", "named"):
            data["keys"] = list(self.keys)
        if self.kind == "named":
            data["name"] = self.name
        return data


def structure_of(r: Reader) -> Structure:
    """Return the structure that a JSON object describes. Raises
    :class:`UnreadableArtifactError`."""
    kind = r.text("kind")
    if kind not in KINDS:
        raise r.error("kind", f"one of {', '.join(KINDS)}", kind)
    children = () if kind == "leaf" else tuple(map(structure_of, r.items("children")))
    keys: tuple[str | int, ...] = ()
    if kind in ("dict", "named"):
        expected = f"{len(children)} different keys"
        found = r.take("keys", expected)
        known = isinstance(found, list) and all(
            isinstance(key, str if kind == "named" else str | int)
            for key in cast(list[object], found)
        )
        if not known or len(set(cast(list[str], found))) != len(children):
            raise r.error("keys", expected, found)
        keys = tuple(cast(list[str], found))
    name = r.text("name") if kind == "named" else ""
    words = (name, *map(str, keys)) if kind == "named" else ()
    if not all(word.isidentifier() for word in words):
        raise r.error("keys", "identifiers", list(words))
    r.finish()
    return Structure(kind, children, keys, name)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
