#!/usr/bin/env python3
"""Names the commits that changed the choice for each built-in program since an older commit.

    python benchmarks/choice_changes.py 9bfd9a0e --kept build/choices --out benchmarks/results

The choice is the candidate that is predicted to be the fastest, before verification and
compilation (:mod:`choice_of_tree`). It is compared as plain data, without the names of values,
because the text of the dialects differs between commits. If it differs between the two commits, it
is determined at the commits in between, along first parents, always at the middle of an interval
whose ends differ. So a change that was reverted in between may go unnoticed. An interval is first
divided at commits that are named as likely (``--likely``), such as those that changed programs of
the same kinds.

Each commit is checked out in a folder of its own; the compiled library is that of this tree, from
which the search reads only the table of chips. ``--kept`` keeps all choices, so that an interrupted
run can be continued. Programs with a long search may be compared at both ends only (``--ends``),
and in between later: ``--update`` replaces the rows of the programs that are named, and keeps the
others.

With ``--ptx OLD NOW``, folders that ``choice_of_tree.py --ptx`` has written with both trees and
their own builds, the PTX of equal choices is compared as well, except for the numbers of registers
and labels; the sources of the code generator that changed it are recognised by their instructions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kept

Row = dict[str, Any]
HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
FILE = "choices.json"
DECIDING = ("cost", "pipeline", "search", "semantics", "transforms")
"""The packages whose changes may change a choice."""
PTX_SOURCES = {
    ".minnctapersm": "GrantRegisters.cpp: registers that no other block needs",
    "prefetch.tensormap": "Bulk.cpp: prefetched tensor maps",
    "ex2.approx.ftz.f32": "SpeculatedMaxima.cpp: exponentials before their maxima are known",
    "mbarrier.try_wait.parity.shared::cta.b64": "WarpgroupProducts.cpp: groups store own rows",
    "ld.shared.b16": "Copy.cpp: rows at odd elements",
}
"""Instructions that one source of the code generator adds or removes."""


def git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class History:
    """The commits from ``old`` to ``now`` that may have changed choices, and the choices at
    them."""

    def __init__(self, old: str, now: str, folder: Path, likely: Sequence[str] = ()) -> None:
        packages = [f"python/mirage/{name}" for name in DECIDING]
        since = ("log", "--reverse", "--first-parent", "--format=%H", f"{old}..{now}", "--")
        self.commits = [git("rev-parse", old), *git(*since, *packages).split()]
        if self.commits[-1] != git("rev-parse", now):
            self.commits.append(git("rev-parse", now))
        named = {self.commits.index(git("rev-parse", commit)) for commit in likely}
        self.likely = {place for after in named for place in (after - 1, after)}
        self.folder = folder
        self.tree = folder / "tree"
        folder.mkdir(parents=True, exist_ok=True)
        if not self.tree.exists():
            git("worktree", "add", "--detach", str(self.tree.resolve()), self.commits[0])

    def at(self, place: int, programs: Sequence[str]) -> dict[str, Row]:
        """Return the choices for some programs at a commit."""
        path = self.folder / f"{self.commits[place]}.json"
        known: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
        missing = [name for name in programs if name not in known]
        if missing:
            git("-C", str(self.tree), "checkout", "-q", "-f", self.commits[place])
            known.update(zip(missing, _asked(self.tree, missing), strict=True))
            path.write_text(json.dumps(known))
            print(f"{self.commits[place][:8]}: {len(missing)} programs", flush=True)
        return {name: known[name] for name in programs}

    def changes(self, programs: Sequence[str]) -> dict[str, list[int]]:
        """Return the places of the commits that changed the choice for each program."""
        found: dict[str, list[int]] = {name: [] for name in programs}
        work = {(0, len(self.commits) - 1): list(programs)}
        while work:
            halves: dict[tuple[int, int], list[str]] = {}
            for (low, high), names in work.items():
                before, after = self.at(low, names), self.at(high, names)
                differing = [n for n in names if before[n]["graph"] != after[n]["graph"]]
                middle = self._between(low, high)
                for name in differing:
                    if high - low == 1:
                        found[name].append(high)
                        continue
                    halves.setdefault((low, middle), []).append(name)
                    halves.setdefault((middle, high), []).append(name)
            work = halves
        return {name: sorted(places) for name, places in found.items()}

    def _between(self, low: int, high: int) -> int:
        """Return the place that divides an interval: next to a likely commit if the interval
        contains one, and as near to the middle as possible."""
        inner = range(low + 1, high)
        places = sorted(self.likely.intersection(inner)) or inner
        return min(places, key=lambda place: abs(2 * place - low - high), default=high)

    def title(self, place: int) -> str:
        """Return the title of a commit; of a merge, those of the merged commits that may have
        changed choices."""
        commit = self.commits[place]
        if len(git("log", "-1", "--format=%P", commit).split()) < 2:
            return git("log", "-1", "--format=%s", commit)
        paths = [f"python/mirage/{name}" for name in ("cost", "search", "transforms")]
        merged = git(
            "log", "--no-merges", "--reverse", "--format=%s", f"{commit}^1..{commit}", "--", *paths
        )
        return "merge: " + "; ".join(merged.splitlines())


def _asked(tree: Path, programs: Sequence[str]) -> list[Row]:
    """Ask a tree for choices."""
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    others = [p for p in given if not (Path(p) / "mirage" / "__init__.py").exists()]
    compiled = others or [str(ROOT / "build" / "python_packages")]
    path = os.pathsep.join((str(tree.resolve() / "python"), *compiled))
    done = subprocess.run(
        [sys.executable, str(HERE.with_name("choice_of_tree.py"))],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        input="\n".join(programs) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def ptx_difference(old: Path, now: Path) -> dict[str, int] | None:
    """Return how many more of each instruction the PTX in ``now`` has, without the numbers of
    registers and labels; an empty dictionary if only the order differs, None if nothing differs."""
    sides = [
        [line for path in sorted(f.glob("*.ptx")) for line in _lines(path)] for f in (old, now)
    ]
    if sides[0] == sides[1]:
        return None
    before, after = (Counter(_instruction(line) for line in side) for side in sides)
    return {k: after[k] - before[k] for k in sorted(before | after) if after[k] != before[k]}


def _lines(path: Path) -> Iterator[str]:
    for line in path.read_text().splitlines():
        text = re.sub(r"//.*", "", line).strip()
        if text and not text.startswith((".loc", ".file", ".section", ".b8", ".b32", ".reg")):
            yield re.sub(r"\$L\w+", "$L", re.sub(r"(%[a-z]+)\d+", r"\1", text))


def _instruction(line: str) -> str:
    return re.sub(r"^@!?%?\w+\s+", "", line).split()[0].rstrip(";")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("old", help="the older commit")
    parser.add_argument("programs", nargs="*", help="default: all of the older commit")
    parser.add_argument(
        "--ends", nargs="*", default=[], metavar="NAME", help="programs without commits in between"
    )
    parser.add_argument(
        "--likely", nargs="*", default=[], metavar="COMMIT", help="commits to look beside first"
    )
    parser.add_argument("--now", default="HEAD", help="the newer commit")
    folder = Path("build/choices")
    parser.add_argument("--kept", type=Path, default=folder, help="folder for all choices")
    parser.add_argument("--ptx", nargs=2, type=Path, metavar=("OLD", "NOW"), help="folders of PTX")
    parser.add_argument("--out", type=Path, help="folder for choices.json")
    parser.add_argument(
        "--update", action="store_true", help="keep the rows of other programs in choices.json"
    )
    return parser.parse_args()


def row_of(name: str, places: Sequence[int], history: History, ptx: Sequence[Path] | None) -> Row:
    """Compare the choices at both ends, which the commits at these places changed; PTX is compared
    if they are the same."""
    ends = [history.at(place, [name])[name] for place in (0, len(history.commits) - 1)]
    if ends[0]["graph"] != ends[1]["graph"]:
        return {
            "graph": "differs",
            "commits": [history.commits[i][:8] for i in places],
            "us": [end["us"] for end in ends],
            "kernels": [end["kernels"] for end in ends],
        }
    folders = [folder / name for folder in ptx or ()]
    if not folders or not all(folder.exists() for folder in folders):
        return {"graph": "same"}
    more = ptx_difference(*folders)
    return {
        "graph": "same",
        "ptx": "same" if more is None else "differs",
        "ptx_by": [source for key, source in PTX_SOURCES.items() if key in (more or {})],
        "instructions": more or {},
    }


def result_of(rows: Mapping[str, Row], history: History, command: str) -> dict[str, Any]:
    """Return the rows with their common data: ends, counts, and the commits that changed
    choices."""
    changed = Counter(commit for row in rows.values() for commit in row.get("commits", ()))
    titles = {commit[:8]: place for place, commit in enumerate(history.commits)}
    return {
        "command": command,
        "commits": {"old": history.commits[0][:8], "now": history.commits[-1][:8]},
        "programs": len(rows),
        "same_graph": sum(row["graph"] == "same" for row in rows.values()),
        "same_ptx": sum(row.get("ptx") == "same" for row in rows.values()),
        "changed_by": {
            commit: {"programs": changed[commit], "title": history.title(place)}
            for commit, place in titles.items()
            if commit in changed
        },
        "ptx_changed_by": Counter(s for row in rows.values() for s in row.get("ptx_by", ())),
        "rows": rows,
    }


def updated(earlier: Mapping[str, Any], result: Mapping[str, Any], history: History) -> Row:
    """Return an earlier result with the rows of a later one for the same commits."""
    if earlier["commits"] != result["commits"]:
        raise ValueError(f"expected choices between {earlier['commits']}, got {result['commits']}")
    command = f"{earlier['command']} && {result['command']}"
    return result_of({**earlier["rows"], **result["rows"]}, history, command)


def main() -> int:
    """Command line."""
    arguments = parse()
    history = History(arguments.old, arguments.now, arguments.kept, arguments.likely)
    programs = arguments.programs or _programs_of(history)
    changes = history.changes([name for name in programs if name not in arguments.ends])
    rows = {n: row_of(n, changes.get(n, []), history, arguments.ptx) for n in programs}
    result = result_of(rows, history, shlex.join(["python", *sys.argv]))
    if arguments.update:
        earlier = json.loads((arguments.out / FILE).read_text())
        result = updated(earlier, result, history)
    print(json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1))
    if arguments.out:
        kept.write(arguments.out / FILE, result, "rows", ("instructions",))
    return 0


def _programs_of(history: History) -> list[str]:
    """Return the names of the programs that the older commit has."""
    command = [sys.executable, "-c", "from mirage.workloads import names; print(*names())"]
    git("-C", str(history.tree), "checkout", "-q", "-f", history.commits[0])
    path = {**os.environ, "PYTHONPATH": str(history.tree.resolve() / "python")}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    sys.exit(main())
