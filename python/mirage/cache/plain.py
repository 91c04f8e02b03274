"""Conversion of dataclasses to plain data and back, by the types of their fields.

Reading is strict: data must have exactly the fields of the class, each of its type.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


class PlainError(ValueError):
    """Plain data does not match a type."""


def as_plain(value: Any) -> Any:
    """Convert ``value`` to lists, dicts, strings and numbers (including infinite ones)."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(k): as_plain(v) for k, v in items}
    if isinstance(value, tuple | list):
        return [as_plain(v) for v in cast("list[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted(as_plain(v) for v in cast("set[Any]", value))
    if isinstance(value, Fraction):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    item: Any = getattr(value, "item", None)
    if item is not None:  # a number of NumPy
        return item()
    raise PlainError(f"expected plain data, got {type(value).__name__}")


def from_plain(kind: type[T], data: Any) -> T:
    """Convert data that :func:`as_plain` made to a value of ``kind``. Raises
    :class:`PlainError`."""
    return cast("T", _read(kind, data))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, data: Any) -> Any:
    if hint is Any:
        return data
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _of_union(hint, data)
    if origin in (tuple, list):
        return _sequence(hint, data)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise PlainError(f"expected an object, got {type(data).__name__}")
        _, value = get_args(hint)
        return {str(k): _read(value, v) for k, v in cast("dict[Any, Any]", data).items()}
    if is_dataclass(hint):
        return _dataclass(cast("type[Any]", hint), data)
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(data)
        except ValueError as error:
            raise PlainError(str(error)) from None
    return _scalar(hint, data)


def _scalar(hint: Any, data: Any) -> Any:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if hint in (int, float, str, bool, type(None)) and type(data) is hint:
        return data
    if hint is type(None) or hint is None:
        if data is None:
            return None
        raise PlainError(f"expected null, got {type(data).__name__}")
    raise PlainError(f"expected {getattr(hint, '__name__', hint)}, got {data!r:.40}")


def _of_union(hint: Any, data: Any) -> Any:
    options = get_args(hint)
    if data is None and type(None) in options:
        return None
    for option in options:
        if option is type(None):
            continue
        try:
            return _read(option, data)
        except PlainError:
            continue
    raise PlainError(f"expected {hint}, got {data!r:.40}")


def _sequence(hint: Any, data: Any) -> Any:
    if not isinstance(data, list):
        raise PlainError(f"expected a list, got {type(data).__name__}")
    items = cast("list[Any]", data)
    inner = get_args(hint)
    if get_origin(hint) is list:
        return [_read(inner[0], x) for x in items]
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_read(inner[0], x) for x in items)
    if len(inner) != len(items):
        raise PlainError(f"expected {len(inner)} items, got {len(items)}")
    return tuple(_read(h, x) for h, x in zip(inner, items, strict=True))


def _dataclass(kind: type[Any], data: Any) -> Any:
    if not isinstance(data, dict):
        raise PlainError(f"expected an object for {kind.__name__}, got {type(data).__name__}")
    given = cast("dict[str, Any]", data)
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(given) - known)
    missing = sorted(
        f.name
        for f in fields(kind)
        if f.name not in given and f.default is MISSING and f.default_factory is MISSING
    )
    if unknown or missing:
        raise PlainError(f"{kind.__name__}: unknown fields {unknown}, missing ones {missing}")
    hints = _hints(kind)
    return kind(**{name: _read(hints[name], value) for name, value in given.items()})
