"""The assumptions that a candidate may rely on, as one set of switches.

PyTorch's own compiler keeps intermediate values in f32 where the program has 16 bits, and it
reorders sums; it does not assume that inputs are finite. The defaults here are the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumptions:
    """``reassociation``: sums and products may be computed in another order and by other algebra,
    within the limits of the rounding errors; without it a candidate must give the same numbers.
    ``more_precision``: intermediate values may be more precise than the program writes them if the
    result does not depend on their rounding; without it, every cast to 16 bits that the program
    writes is part of its meaning. ``finite_inputs``: inputs contain no NaN, so a candidate may lose
    one. ``indices_in_range``: every whole number with which either program picks elements of rows
    names an element; no element may mean that a class is left out. ``rows_left``: each mask leaves
    something of each row; for a row of which nothing is left, PyTorch's fused attention gives
    zeros, whereas a softmax gives NaN. ``integers_fit``: sums of integers of 32 bits, and sums and
    products of those of 64 bits, are within their types; the verdict names it only where programs
    have sums that may leave them."""

    reassociation: bool = True
    more_precision: bool = True
    finite_inputs: bool = False
    indices_in_range: bool = False
    rows_left: bool = False
    integers_fit: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the assumptions that are made, for people."""
        made = {
            "reassociation": self.reassociation,
            "more precision inside": self.more_precision,
            "finite inputs": self.finite_inputs,
            "indices in range": self.indices_in_range,
            "rows left by masks": self.rows_left,
        }
        return tuple(name for name, is_made in made.items() if is_made)
