"""CONTRIBUTING's recipes, followed on copies of the tree.

A recipe is a section with numbered steps. A step first names a file, in backquotes. Then come
fenced texts, each preceded by words that say where it belongs: "after `LINE`" (where `LINE` is a
part of one line of the file). "`NEW` instead of `OLD`" changes a part of one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Step:
    """``text`` after the line of ``file`` that has ``anchor``, or instead of ``anchor`` itself."""

    file: str
    anchor: str
    text: str
    instead: bool = False


def steps_of(title: str) -> list[Step]:
    """Yield the steps of a section, in order."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split(f"## {title}\n")[1]
    found: list[Step] = []
    for item in re.split(r"^\d\. ", section.split("\n## ")[0], flags=re.M)[1:]:
        file = re.match(r"`([^`]+)`", item)
        assert file is not None, item
        parts = re.split(r"^   ```\n(.*?)^   ```$", item, flags=re.M | re.S)
        for before, block in zip(parts[::2], parts[1::2], strict=False):
            anchor = re.search(r"after\s+`([^`]+)`", before)
            assert anchor is not None, before
            text = "".join(line.removeprefix("   ") for line in block.splitlines(keepends=True))
            found.append(Step(file[1], anchor[1], text))
        for new, old in re.findall(r"`([^`]+)`\s+instead\s+of\s+`([^`]+)`", item):
            found.append(Step(file[1], old, new, instead=True))
    return found


def follow(step: Step, tree: Path) -> None:
    """Perform the step; exactly one line must contain the anchor."""
    path = tree / step.file
    lines = path.read_text().splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if step.anchor in line]
    assert len(at) == 1, f"expected one line of {step.file} with {step.anchor!r}, got {len(at)}"
    if step.instead:
        lines[at[0]] = lines[at[0]].replace(step.anchor, step.text)
    else:
        lines.insert(at[0] + 1, step.text)
    path.write_text("".join(lines))
