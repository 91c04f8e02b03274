"""The C++ libraries link downwards only, and include no headers of libraries that they do not link.
``lib/CMakeLists.txt`` states the sources and links of each library. Headers belong to the library
of their folder. The headers that a library includes, and the symbols of the project that it leaves
undefined, must come from itself or from libraries that it links, so that each can be linked alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INCLUDE = re.compile(r'^#include "(mirage/[^"]+)"', re.M)


@dataclass(frozen=True)
class Library:
    name: str
    folders: tuple[str, ...]
    links: tuple[str, ...]


def libraries(text: str) -> dict[str, Library]:
    """The libraries that a CMakeLists.txt declares."""
    found: dict[str, Library] = {}
    for call in re.finditer(r"^mirage_add_library\((.*?)\)", text, re.M | re.S):
        name, *words = call[1].split()
        parts: dict[str, list[str]] = {"DIRECTORIES": [], "LINK": []}
        kind = ""
        for word in words:
            if word in parts:
                kind = word
            else:
                parts[kind].append(word)
        found[name] = Library(name, tuple(parts["DIRECTORIES"]), tuple(parts["LINK"]))
    return found


def closure(known: dict[str, Library], name: str, path: tuple[str, ...] = ()) -> set[str]:
    """Return a library and all libraries that it links. Raises ValueError for a circle."""
    if name in path:
        raise ValueError(f"libraries link in a circle: {' -> '.join((*path, name))}")
    inner = [closure(known, link, (*path, name)) for link in known[name].links]
    return {name}.union(*inner)


def owner(known: dict[str, Library], header: str) -> str | None:
    """The library of a header ``mirage/...``, None for generated ones of no folder."""
    for library in known.values():
        if any(header.startswith(f"mirage/{folder}/") for folder in library.folders):
            return library.name
    return None


def sources(library: Library) -> Iterator[Path]:
    for folder in library.folders:
        for root in (ROOT / "lib" / folder, ROOT / "include/mirage" / folder):
            yield from (p for p in root.rglob("*") if p.suffix in (".h", ".cpp", ".td"))


def upward_includes(known: dict[str, Library]) -> list[str]:
    """Return includes of headers from libraries that a library does not link."""
    found: list[str] = []
    for library in known.values():
        below = closure(known, library.name)
        for path in sources(library):
            text = re.sub(r'^include "', '#include "', path.read_text(), flags=re.M)
            for header in INCLUDE.findall(text):
                of = owner(known, header)
                if of is None or of not in below:
                    found.append(f"{path.relative_to(ROOT)} includes {header} of {of}")
    return found


KNOWN = libraries((ROOT / "lib/CMakeLists.txt").read_text())


def test_every_folder_belongs_to_one_library() -> None:
    files = [p.relative_to(ROOT / "lib") for p in (ROOT / "lib").rglob("*.cpp")]
    for path in files:
        owners = [
            x.name for x in KNOWN.values() if any(str(path).startswith(f + "/") for f in x.folders)
        ]
        assert len(owners) == 1, path


def test_names_of_sources_occur_once() -> None:
    """The names of passes are an exception, since LLVM gives them."""
    names = Counter(path.name for path in (ROOT / "lib").rglob("*.cpp"))
    assert {name for name, count in names.items() if count > 1} == {"Passes.cpp"}


def test_libraries_link_in_no_circle() -> None:
    for name in KNOWN:
        closure(KNOWN, name)
    assert closure(KNOWN, "MirageKernel") == {"MirageKernel", "MirageCommon"}
    assert "MirageBlock" not in closure(KNOWN, "MirageThread")
    assert KNOWN["MirageTarget"].links == ()


def test_libraries_include_what_they_link() -> None:
    assert upward_includes(KNOWN) == []


def test_a_link_upwards_is_noticed() -> None:
    """The check can fail: a circle, and an include without a link."""
    circle = libraries(
        "mirage_add_library(A DIRECTORIES a LINK B)\nmirage_add_library(B DIRECTORIES b\n  LINK A)"
    )
    with pytest.raises(ValueError, match="A -> B -> A"):
        closure(circle, "A")
    thread = KNOWN["MirageThread"]
    without = {**KNOWN, "MirageThread": Library(thread.name, thread.folders, ("MirageCommon",))}
    assert any("PlanSharedMemory.cpp includes mirage/Target" in f for f in upward_includes(without))


def _symbols(archive: Path, kind: str) -> set[str]:
    done = subprocess.run(
        ["nm", "-C", kind, str(archive)], capture_output=True, text=True, check=True
    )
    names = (line.split(maxsplit=2)[-1] for line in done.stdout.splitlines() if line.strip())
    return {n.removeprefix("U ").strip() for n in names if "mirage::" in n}


def test_each_library_links_alone() -> None:
    """Symbols that the built archives leave undefined are defined below them."""
    import mirage._target as compiled  # says where the build is

    build = Path(str(compiled.__file__)).parents[2] / "lib"
    archives = {name: build / f"lib{name}.a" for name in KNOWN}
    if shutil.which("nm") is None or not all(a.exists() for a in archives.values()):
        pytest.skip("no build tree with static libraries")
    defined = {name: _symbols(a, "--defined-only") for name, a in archives.items()}
    everywhere = set[str]().union(*defined.values())
    for name, archive in archives.items():
        here = set[str]().union(*(defined[x] for x in closure(KNOWN, name)))
        missing = (_symbols(archive, "--undefined-only") & everywhere) - here
        assert not missing, f"{name} needs {sorted(missing)[:5]}"
