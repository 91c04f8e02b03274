"""Equivalence of tensor programs: is a candidate µGraph the same function as its reference?

It shares no code with the search, so that the search's errors cannot hide themselves here.
"""

from mirage.verify.assumptions import Assumptions
from mirage.verify.verdict import Evidence, FreeExtent, HoldsFor, Kind, Verdict, Witness
from mirage.verify.verifier import verify
from mirage.verify.verify_options import BadOptions, SignatureMismatch, VerifyOptions

__all__ = [
    "Assumptions",
    "BadOptions",
    "Evidence",
    "FreeExtent",
    "HoldsFor",
    "Kind",
    "SignatureMismatch",
    "Verdict",
    "VerifyOptions",
    "Witness",
    "verify",
]
