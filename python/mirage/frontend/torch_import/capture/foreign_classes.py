"""Arguments and results of classes that ``torch.export`` does not take apart."""

from __future__ import annotations

import re

_SAID = re.compile(r"(Found|Unsupported input type) <class '([^']+)'>")


def foreign_class(error: Exception) -> str | None:
    """Return an explanation and a remedy if an error of ``torch.export`` is about the class of an
    argument or a result."""
    said = _SAID.match(str(error))
    if said is None:
        return None
    place, name = said.groups()
    what, remedy = "example inputs", "pass its contents"
    if place == "Found":
        what, remedy = "results", "return its contents in a tuple or a dictionary"
    elif name == "numpy.ndarray":
        remedy = "torch.from_numpy makes a tensor of it"
    return (
        f"expected {what} that are tensors, numbers, strings and None, in tuples, lists and "
        f"dictionaries, got an object of the class {name}; {remedy}"
    )
