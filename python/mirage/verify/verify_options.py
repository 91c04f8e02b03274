"""The options of the verifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.verify.assumptions import Assumptions
from mirage.verify.evidence.proofs.exact import ENOUGH_LOG2


class SignatureMismatch(ValueError):
    """Two graphs do not have the same inputs and outputs."""


class BadOptions(ValueError):
    """Options of the verifier contradict each other."""


@dataclass(frozen=True)
class VerifyOptions:
    """The options of the verifier; each field's ``help`` says what it is for."""

    seed: int | None = field(
        default=None,
        metadata={
            "help": "seed of the random tests, to make them repeatable",
            "unset": "secret randomness, so that no candidate can be fitted to it (rounding errors "
            "are measured on the same inputs each time)",
        },
    )
    draws: int = field(default=2, metadata={"help": "independent random draws"})
    work: float = field(
        default=1e6,
        metadata={
            "help": "elements that are computed for one draw at the real sizes (1e6: about 50 ms); "
            "of larger programs a sample"
        },
    )
    permute: bool = field(default=False, metadata={"help": "accept the outputs in another order"})
    numerics: bool = field(
        default=True, metadata={"help": "measure rounding errors against float64"}
    )
    prove: bool = field(default=True, metadata={"help": "try for a proof"})
    max_error_log2: float = field(
        default=ENOUGH_LOG2,
        metadata={"help": "base-2 logarithm of the bound that a verdict without a proof needs"},
    )
    seconds: float | None = field(
        default=None,
        metadata={
            "help": "processor time for proofs of two programs, after which they are unknown",
            "unset": "2 s, or 0.05 s for each of many ops; no limit for kernels, and where the "
            "search verifies",
        },
    )
    redraws: int = field(
        default=6, metadata={"help": "draws that may be repeated for divisions by zero"}
    )
    assume: Assumptions = field(
        default_factory=Assumptions, metadata={"help": "what rounding errors are measured under"}
    )

    misses_are_errors: bool = field(
        default=False,
        metadata={
            "help": "the reference adds minus infinity only where an index names no element, which "
            "is an error",
            "unset": "known of programs that are imported from PyTorch",
        },
    )

    @property
    def rounding_seed(self) -> int:
        """The seed of the inputs on which rounding errors are measured. It is fixed unless a seed
        is given, so that the same candidate always gets the same answer."""
        return self.seed or 0

    def __post_init__(self) -> None:
        if self.draws < 1 or self.redraws < 0:
            raise BadOptions(f"expected at least one draw, got {self.draws} ({self.redraws} more)")
        if not self.work >= 1:
            raise BadOptions(f"expected work for at least one element, got {self.work}")
        if self.seconds is not None and not self.seconds > 0:
            raise BadOptions(f"expected a time above 0, got {self.seconds} s")
        if not self.max_error_log2 < 0:
            raise BadOptions(f"expected an error bound below 1, got 2^{self.max_error_log2}")
