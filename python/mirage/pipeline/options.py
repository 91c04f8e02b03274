"""The options of an optimization, and their errors."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar

from mirage.cache import as_plain
from mirage.compiler.chips import default_chip
from mirage.cost.target import DEFAULT_CHIP, name_in_table, target_for
from mirage.errors import MirageError
from mirage.pipeline.worker_processes import worker_processes
from mirage.search import BOUNDS, SearchLimits
from mirage.search.limits import SPARE, VERIFIED
from mirage.verify import VerifyOptions

T = TypeVar("T")


class OptionError(MirageError, TypeError):
    """An unknown option, or a value that an option does not take."""


class NothingFoundError(MirageError):
    """No program, or more or fewer than one artifact, can be returned; the message says why."""


class Matters(enum.Enum):
    """The stages that an option influences, and so the entries of the cache that hold for one value
    of it only. Each field of :class:`OptimizeOptions` declares it."""

    SEARCH = "what is found for a part, and what is verified of it"
    CHOICE = "which of that is chosen and compiled"
    NOTHING = "neither (or only how far the search gets: an entry says its budget)"


def _option(default: T, what: str, matters: Matters, unset: str = "") -> T:
    """Return a field with its help; ``unset`` says what None means."""
    return field(default=default, metadata={"help": what, "unset": unset, "matters": matters})


def _taken_over(kind: type, name: str, matters: Matters, unset: str = "") -> Any:
    """Return a field with the default and the help of a field of the dataclass ``kind``."""
    (known,) = (f for f in fields(kind) if f.name == name)
    return _option(known.default, known.metadata["help"], matters, unset)


def _need_positive(what: str, value: Any, kind: type = Integral) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:
        number = "integer" if kind is Integral else "number"
        raise OptionError(f"expected a positive {number} as the {what}, got {value!r}")


@dataclass(frozen=True)
class OptimizeOptions:
    """The options of an optimization; each field's ``help`` says what it is for. The command's
    options, the passes' and the documentation come from these fields and those of
    :class:`mirage.search.SearchLimits` and :class:`mirage.verify.VerifyOptions`."""

    chip: str = field(
        default_factory=default_chip,
        metadata={
            "help": "chip (sm_90a) or card (h200) of the table in docs/chips.md",
            "unset": f"this machine's GPU; without one {DEFAULT_CHIP}",
            "matters": Matters.SEARCH,
        },
    )
    budget: float = _option(
        60.0, "seconds for search, verification and compilation, then the best that is verified is "
        "taken; time in which other programs use the processors does not count (until eight times "
        "as many seconds have passed)", Matters.NOTHING,
    )  # fmt: skip
    candidates: int = _option(VERIFIED, "candidates to verify", Matters.SEARCH)
    finalists: int = _option(
        4, "verified candidates to compile, of which the fastest is taken", Matters.SEARCH
    )
    seed: int = _taken_over(SearchLimits, "seed", Matters.SEARCH)
    verify_seed: int | None = _taken_over(
        VerifyOptions, "seed", Matters.SEARCH, "secret randomness"
    )
    draws: int = _taken_over(VerifyOptions, "draws", Matters.SEARCH)
    numerics: bool = _taken_over(VerifyOptions, "numerics", Matters.SEARCH)
    jobs: int | None = _option(
        None, "processes that search and verify", Matters.NOTHING, "one a processor"
    )
    compile: bool = _option(True, "compile what is chosen", Matters.CHOICE)
    check_kernels: bool = _option(
        True, "run compiled kernels before they are handed out: a few blocks of each in the "
        "emulator, all of them once on a GPU where there is one", Matters.CHOICE,
    )  # fmt: skip
    cubin: bool = _option(True, "assemble machine code where ptxas is there", Matters.CHOICE)
    pytorch_where_faster: bool | None = _option(
        None, "leave a part to PyTorch if its kernels are predicted to take more than 1.4 times "
        "as long as PyTorch's calls; torch.compile does so by default", Matters.CHOICE,
        "only products of parts for which the time ran out",
    )  # fmt: skip
    use_cache: bool = _option(True, "use the results of earlier runs", Matters.NOTHING)
    fresh: bool = _option(
        False,
        "search again, without the results of earlier runs, and keep the new ones (the environment "
        "variable MIRAGE_FRESH=1 does the same)",
        Matters.NOTHING,
    )
    bounds: Mapping[str, int] = field(
        default_factory=dict[str, int],
        metadata={
            "help": "bounds of the search, by the names of fields of SearchLimits",
            "matters": Matters.SEARCH,
        },
    )
    watch: Callable[[str], None] | None = field(
        default=None,
        metadata={
            "help": "is called with sentences about what happened",
            "matters": Matters.NOTHING,
        },
    )
    progress: Callable[[str], None] | None = field(
        default=None,
        metadata={"help": "is called with the current step", "matters": Matters.NOTHING},
    )

    def __post_init__(self) -> None:
        chip = vars(self)["chip"]  # for any type that the caller gave
        if not isinstance(chip, str):
            raise OptionError(f"expected the name of a chip, got {chip!r}")
        object.__setattr__(self, "chip", name_in_table(chip))
        _need_positive("budget", self.budget, Real)
        for name in ("candidates", "finalists", "draws"):
            _need_positive(f"number of {name}", getattr(self, name))
        if self.jobs is not None:
            _need_positive("number of jobs", self.jobs)
        for name, bound in self.bounds.items():
            if not isinstance(bound, Integral):
                raise OptionError(f"expected an integer as the bound of {name}, got {bound!r}")
        unknown = sorted(set(self.bounds) - set(BOUNDS))
        if unknown:
            known = ", ".join(BOUNDS)
            raise OptionError(f"expected bounds among {known}, got {', '.join(unknown)}")
        self.limits()

    @staticmethod
    def of(**options: Any) -> OptimizeOptions:
        """Return the options with these values. Raises :class:`OptionError` for unknown names."""
        known = [f.name for f in fields(OptimizeOptions)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise OptionError(
                f"expected options among {', '.join(known)}, got {', '.join(unknown)}"
            )
        return OptimizeOptions(**options)

    @property
    def processes(self) -> int:
        """The number of workers."""
        return self.jobs or len(os.sched_getaffinity(0))

    def workers(self) -> AbstractContextManager[Executor | None]:
        """Return the context of processes that share the work: they use NumPy alone, and None
        stands for this process."""
        return worker_processes(self.processes)

    def limits(self) -> SearchLimits:
        """Return the search's limits. Raises :class:`mirage.search.LimitError`."""
        return SearchLimits(
            budget=self.budget,
            candidates=SPARE * self.candidates,
            seed=self.seed,
            **self.bounds,
        )

    @property
    def reuses(self) -> bool:
        """Whether results of earlier runs may be used."""
        return self.use_cache and not self.fresh and os.environ.get("MIRAGE_FRESH") != "1"

    def identity(self, *which: Matters) -> dict[str, Any]:
        """Return the influential options as plain data that is equal for equivalent options: the
        chip as its row of the table, bounds with their defaults. Raises ``TypeError`` for a field
        that does not declare the stages that it influences."""
        found: dict[str, Any] = {}
        for option in fields(self):
            matters = option.metadata.get("matters")
            if not isinstance(matters, Matters):
                raise TypeError(f"expected the option {option.name!r} to say what it matters for")
            if matters in which:
                found[option.name] = getattr(self, option.name)
        if "chip" in found:
            found["chip"] = as_plain(target_for(self.chip))
        if "bounds" in found:
            limits = as_plain(self.limits())
            found["bounds"] = {name: n for name, n in limits.items() if name != "budget"}
        return found

    def say(self, text: str) -> None:
        """Report an event to the watcher."""
        if self.watch is not None:
            self.watch(text)

    def show(self, text: str) -> None:
        """Report the current activity."""
        if self.progress is not None:
            self.progress(text)
