"""Wrong twins of the programs in ``steps_right``: a root or a correction is left out."""

from __future__ import annotations

from functools import partial

import torch

from written.pairs import Pair
from written.steps_right import AFTER, EPS, SECOND, SERIES, WEIGHTS, adam, divided, folded

STEPS_WRONG = [
    Pair("the root in the rate alone", WEIGHTS, adam, partial(folded, eps=EPS)),
    Pair("the square of the root", WEIGHTS, adam, partial(folded, eps=EPS * SECOND)),
    Pair("a correction one step later", WEIGHTS, adam,
        partial(divided, second=1 - 0.999 ** (AFTER + 1))),
    Pair("powers from the first on", SERIES, lambda x, c: sum(c[i] * x**i for i in range(4)),
        lambda x, c: x * (torch.vander(x, 4, increasing=True) @ c)),
]  # fmt: skip
