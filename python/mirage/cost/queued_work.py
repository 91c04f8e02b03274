"""The time that blocks of a loop take for their work if they wait at different times, so that each
computes while others wait."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import Num


def queued(own: Num, together: Num, wait: Num) -> Num:
    """Return the µs that a block takes for its work, in addition to the µs for which it waits.
    ``own`` is its work as far as its own waits do not hide it, and ``together`` the work of all
    blocks of its SM.

    Blocks use the units of their SM one after the other. A block that needs them while the others
    wait takes its ``own`` time; one that needs them while the others work takes as long as all work
    ``together``. The share of the time for which blocks wait is ``w = wait / (wait + time)``, so
    that ``time = w * own + (1 - w) * together``, which is solved here. If waits are long, only
    ``own`` is left, and if they are short, they are hidden, and ``together - wait`` is left.

    (Cross-entropy by target takes 53.2 µs with 32 warps on an SM in four blocks, 59.1 with 16 in
    two, 59.2 with 24 in six blocks and 64.2 in three, whose warps exchange values twice a step; 50,
    53, 55 and 57 are predicted. If half of all work counted beside waits: 50, 49, 52 and 54.)
    """
    more = together - wait
    return 0.5 * (more + np.sqrt(more * more + 4.0 * own * wait))
