"""Additional cases, which usually show nothing new: ``make test-thorough`` also runs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def thorough(*case: object) -> Any:
    """A case of a parametrized test that only a thorough run includes."""
    return pytest.param(*case, marks=pytest.mark.thorough)


def some_of(cases: Iterable[object], every: int = 4, one_value: bool = False) -> list[Any]:
    """Similar cases: one in ``every`` is always run. Several values of a case are a tuple, as for
    ``parametrize``; with ``one_value``, a tuple is a single value."""
    given = [pytest.param(case) if one_value else case for case in cases]
    return [_marked(case) if at % every else case for at, case in enumerate(given)]


def _marked(case: object) -> Any:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=(*case.marks, pytest.mark.thorough), id=case.id)
    return thorough(*case) if type(case) is tuple else thorough(case)
