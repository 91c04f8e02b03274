"""Strict reading of JSON: typed values, and no unknown keys."""

from __future__ import annotations

import re
from typing import Any, cast

from mirage.runtime.errors import ArtifactVersionError, UnreadableArtifactError

Json = dict[str, Any]
DTYPES = ("f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2", "i1", "i8", "i16", "i32", "i64")


class Reader:
    """Takes typed values out of a JSON object and rejects keys that are left."""

    def __init__(self, data: Json, where: str, path: str) -> None:
        self.data = dict(data)
        self.where = where
        self.path = path

    def error(self, key: str, expected: str, got: object) -> UnreadableArtifactError:
        place = f"{self.path}.{key}" if self.path else key
        return UnreadableArtifactError(
            f"{self.where}: {place}: expected {expected}, got {got!r:.80}"
        )

    def take(self, key: str, expected: str) -> object:
        if key not in self.data:
            raise self.error(key, expected, "nothing")
        return self.data.pop(key)

    def text(self, key: str) -> str:
        value = self.take(key, "a string")
        if not isinstance(value, str):
            raise self.error(key, "a string", value)
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.take(key, "a string or null")
        if value is not None and not isinstance(value, str):
            raise self.error(key, "a string or null", value)
        return value

    def integer(self, key: str) -> int:
        value = self.take(key, "a non-negative integer")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(key, "a non-negative integer", value)
        return value

    def signed(self, key: str) -> int:
        value = self.take(key, "an integer")
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(key, "an integer", value)
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        expected = "a list of non-negative integers"
        value = self.take(key, expected)
        if not isinstance(value, list):
            raise self.error(key, expected, value)
        items = cast(list[object], value)
        if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in items):
            raise self.error(key, expected, items)
        return tuple(cast(list[int], items))

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.take(key, "a list of strings")
        if not isinstance(value, list) or not all(
            isinstance(v, str) for v in cast(list[object], value)
        ):
            raise self.error(key, "a list of strings", value)
        return tuple(cast(list[str], value))

    def truth(self, key: str) -> bool:
        value = self.take(key, "true or false")
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def triple(self, key: str) -> tuple[int, int, int]:
        value = self.integers(key)
        if len(value) != 3 or 0 in value:
            raise self.error(key, "three positive integers", list(value))
        return value

    def mapping(self, key: str) -> Json:
        value = self.take(key, "an object")
        if not isinstance(value, dict):
            raise self.error(key, "an object", value)
        return cast(Json, value)

    def part(self, key: str) -> Reader:
        """Return a reader of the object under a key."""
        path = f"{self.path}.{key}" if self.path else key
        return Reader(self.mapping(key), self.where, path)

    def items(self, key: str) -> list[Reader]:
        value = self.take(key, "a list of objects")
        if not isinstance(value, list) or not all(
            isinstance(v, dict) for v in cast(list[object], value)
        ):
            raise self.error(key, "a list of objects", value)
        path = f"{self.path}.{key}" if self.path else key
        return [
            Reader(v, self.where, f"{path}[{i}]") for i, v in enumerate(cast(list[Json], value))
        ]

    def dtype(self, key: str) -> str:
        value = self.text(key)
        if value not in DTYPES:
            raise self.error(key, f"one of {', '.join(DTYPES)}", value)
        return value

    def file(self, value: str, key: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", value):
            raise self.error(key, "the name of a file in the same folder", value)
        return value

    def finish(self) -> None:
        if self.data:
            raise self.error(next(iter(self.data)), "no such key", next(iter(self.data.values())))


def opened(data: object, where: str, version: int, what: str, advice: str) -> Reader:
    """Return a reader of a manifest of a known format, after its version. Raises
    :class:`ArtifactVersionError`, with ``advice``, for another version."""
    reader = Reader(cast(Json, data), where, "")
    reader.text("format")
    found = reader.integer("version")
    if found != version:
        raise ArtifactVersionError(
            f"{where}: expected {what} version {version}, got {found}; {advice}"
        )
    return reader
