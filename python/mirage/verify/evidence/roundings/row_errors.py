"""Errors of an output, over all of it and row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.scalar import Array, DType
from mirage.verify.evidence.roundings.activations import LARGEST, Situation
from mirage.verify.evidence.roundings.compared_rows import row_length
from mirage.verify.evidence.roundings.explicit import HALF_ULP

SMALLEST = dict.fromkeys(DType, 0.0) | {
    DType.F16: 2.0**-25,
    DType.BF16: 2.0**-134,
    DType.F32: 2.0**-150,
    DType.F8E4M3: 2.0**-10,
    DType.F8E5M2: 2.0**-17,
}

NEGLIGIBLE = HALF_ULP | {DType.F32: 2.0**-18}
"""Errors relative to the size of a row that are accepted without a comparison with the reference.
In 16 bits this is the largest error of rounding the row itself. In f32 it is 64 times as large,
which no use of such numbers distinguishes: the reference may be exact by chance, and a gate ``b + s
(a - b)`` need not be as exact as ``s a + (1 - s) b`` where ``s`` is 1."""

_SURE, _UNSURE = 0.5, 3.0
"""The numbers of standard errors within which a row's typical error is accepted at once, and in the
end."""

_FEW = 2.0
"""Rows whose errors are at least as uncertain as this (that of nine elements) are also judged by
columns."""


@dataclass(frozen=True)
class Errors:
    """Errors in one situation: root mean squares relative to the size of each output. They are
    those of the worst row if a row fails, otherwise of the worst output."""

    situation: str
    reference: float
    candidate: float
    holds: bool
    where: str = ""
    # whether the situation alone decides: an element that must be finite is not
    certain: bool = False
    example: str = ""  # an element with a large error, and what it should be
    lost: bool = False  # whether `where` says what is lost, whatever the errors are
    order: tuple[int, int] = (0, 0)  # the place of the situation among all


def has_nan(situation: Situation) -> bool:
    return any(np.isnan(plane).any() for x in situation.inputs for plane in x.planes)


def compare_rows(
    exact: Array,
    reference: Array,
    candidate: Array,
    dtype: DType,
    name: str,
    output: str,
    draws: int = 1,
    sure: bool = False,
) -> Errors:
    """Return the errors of one output, over all of it and row by row; each row has ``draws``
    consecutive measurements. With ``sure``, an error fails only if it exceeds the limit by more
    than the uncertainty of so few draws."""
    x, r, c = (np.asarray(v, dtype=np.float64) for v in (exact, reference, candidate))
    n = row_length(x.shape)
    x, r, c = (v.reshape(-1, n) for v in (x, r, c))
    known = _known(x, r, c, dtype)
    if known is None:
        return Errors(
            name, 0.0, np.inf, False, f"{output}: expected minus infinity", certain=True, lost=True
        )
    if not known.any():
        return Errors(name, 0.0, 0.0, True)
    x, error_r, error_c = _errors(x, r, c, known)
    sizes = np.abs(x)
    floor = _floor(sizes, known, dtype)
    size = float(sizes.max()) or 1.0
    count = _count(known, None)
    square_r, square_c = _squares(error_r), _squares(error_c)
    rms_r, rms_c = (float(_root(e, count, None)) / size for e in (square_r, square_c))
    most_r, most_c = (float(np.abs(e).max()) for e in (error_r, error_c))

    def failed() -> Errors:
        return Errors(name, rms_r, rms_c, False, output, example=_example(x, r, c, error_c))

    if not np.isfinite(most_c):
        return replace(failed(), certain=True)
    # The largest of a sample of errors is uncertain by itself: twice that of the mean.
    loose = float(_slack(floor.reshape(1, -1))[0])
    least_error = max(NEGLIGIBLE[dtype], SMALLEST[dtype] / size)
    fine = rms_c <= 2.0 * loose * max(rms_r, least_error / 2.0)
    if not (fine and most_c / size <= 4.0 * loose * max(most_r / size, least_error)):
        return failed()
    count = _count(known, 1)
    rows_r, rows_c, rows_floor = (_root(e, count, 1) for e in (square_r, square_c, _squares(floor)))
    allowed = _allowed(x, error_r, known, floor, rows_r, rows_floor, SMALLEST[dtype])
    wrong = rows_c > allowed
    if draws > 1:
        wrong &= ~_typical(error_r, error_c, floor, known, draws, _SURE if sure else _UNSURE)
    if not wrong.any():
        return Errors(name, rms_r, rms_c, True, output)
    at = int(np.argmax(np.where(wrong, rows_c / np.maximum(allowed, 1e-300), 0.0)))
    scale = float(_rms(x, count, 1)[at]) or 1.0
    example = _example(x[at], r[at], c[at], error_c[at])
    row = Errors(name, float(rows_r[at]) / scale, float(rows_c[at]) / scale, False)
    return replace(row, where=f"{output}, row {at} of those compared", example=example)


def _allowed(
    x: Array,
    error: Array,
    known: Array,
    floor: Array,
    own: Array,
    least: Array,
    smallest: float,
) -> Array:
    """Return the errors that the rows of a candidate may have: about twice those of the
    reference, ``own``; the errors of other rows count if a row has few of its own."""
    slack = _slack(floor)
    if (slack > _FEW).any():
        others = _of_other_rows(x, error, known, smallest)
        own = np.where(slack > _FEW, np.maximum(own, others), own)
    return 2.0 * slack * np.maximum(own, least / 2.0)


def _known(x: Array, r: Array, c: Array, dtype: DType) -> Array | None:
    """Return where errors are compared; None if the candidate is not minus infinity where both
    others are."""
    # Next to the end of a type's range, rounding decides whether a number is infinite.
    inside = np.abs(x) < 0.97 * LARGEST[dtype]
    known = inside & np.isfinite(r)
    if not known.all():
        least = (x == -np.inf) & (r == -np.inf)  # a candidate may do better, but not worse
        if (least & (np.isnan(c) | (c == np.inf))).any():
            return None
    return known


def _errors(x: Array, r: Array, c: Array, known: Array) -> tuple[Array, Array, Array]:
    """Return exact values and the errors of both others, which are 0 where nothing is known, and
    infinite where only the candidate is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        error_r, error_c = r - x, c - x
    finite = np.isfinite(c)
    if not finite.all():
        error_c = np.where(finite, error_c, np.inf)
    if known.all():
        return x, error_r, error_c
    x, error_r, error_c = (np.where(known, v, 0.0) for v in (x, error_r, error_c))
    return x, error_r, error_c


def _floor(sizes: Array, known: Array, dtype: DType) -> Array:
    """Return the errors that are negligible in numbers of these sizes, 0 where nothing is known."""
    floor = NEGLIGIBLE[dtype] * sizes
    floor += SMALLEST[dtype]
    return floor if known.all() else np.where(known, floor, 0.0)


def _example(exact: Array, reference: Array, candidate: Array, errors: Array) -> str:
    """Say what the element with the largest error is, and what it should be."""
    at = int(np.argmax(np.abs(errors)))
    x, r, c = (float(v.ravel()[at]) for v in (exact, reference, candidate))
    return f"{c:.6g} for {x:.6g}, which the reference computes as {r:.6g}"


def _of_other_rows(x: Array, errors: Array, known: Array, least: float) -> Array:
    """Return the errors that rows would have with those of their columns in all rows, each relative
    to the size of its row: the error of a single element may be 0 by chance, but not that of its
    column.
    """
    count = _count(known, 1)
    sizes = np.maximum(_rms(x, count, 1), least)
    columns = _rms(errors / sizes[:, None], _count(known, 0), 0)
    return sizes * _rms(np.broadcast_to(columns, errors.shape), count, 1)


def _typical(
    error_r: Array, error_c: Array, floor: Array, known: Array, draws: int, spread: float
) -> Array:
    """Return the rows whose typical error is at most twice the reference's, within ``spread``
    standard errors."""

    def logarithms(e: Array) -> Array:
        own, its = (v.reshape(len(v), draws, -1) for v in (e, known))
        return np.log(np.maximum(_rms(own, _count(its, 2), 2), least)).mean(1)

    least = np.maximum(_rms(floor, _count(known, 1), 1) / 2.0, 1e-300)[:, None]
    uncertain = 1.0 + spread / np.sqrt(draws)
    return logarithms(error_c) - logarithms(error_r) <= np.log(2.0 * uncertain)


def _slack(floor: Array) -> Array:
    """Return, for each row, the factor by which the ratio of two measured errors may be off: the
    mean of a few elements is uncertain, and so is that of a row that a few elements dominate."""
    weights = floor / np.maximum(floor.max(1, keepdims=True), 1e-300)
    squares = weights * weights
    effective = squares.sum(1) ** 2 / np.maximum((squares * squares).sum(1), 1e-300)
    return 1.0 + 3.0 / np.sqrt(np.maximum(effective, 1.0))


def _rms(e: Array, count: Array, axis: int | None) -> Array:
    """Return the root mean square along an axis, of which ``count`` elements are known; the others
    are 0."""
    return _root(_squares(e), count, axis)


def _squares(e: Array) -> Array:
    with np.errstate(over="ignore"):
        return e * e


def _root(squares: Array, count: Array, axis: int | None) -> Array:
    """Return the root of the mean of squares along an axis."""
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(squares.sum(axis) / count))


def _count(known: Array, axis: int | None) -> Array:
    """Return the number of known elements, at least 1."""
    return np.maximum(known.sum(axis), 1)
