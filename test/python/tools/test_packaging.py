"""The contents of a package, and files that it leaves out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mirage._target as target  # pyright: ignore[reportMissingImports]
import tomllib
from pathspec import GitIgnoreSpec

ROOT = Path(__file__).parents[3]
BUILD = Path(target.__file__).parents[2]
"""The build folder of the package's compiled part."""


def test_no_source_is_left_out_of_a_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    left_out = GitIgnoreSpec.from_lines(settings["sdist"]["exclude"])
    sources = [p.relative_to(ROOT).as_posix() for p in (ROOT / "python").rglob("*.py")]
    assert "python/mirage/semantics/builder.py" in sources
    assert not list(left_out.match_files(sources))
    assert left_out.match_file("build/bin/mirage-opt")


def test_what_is_installed_works_without_the_build(tmp_path: Path) -> None:
    """A wheel has `python/mirage` and the files that CMake installs for one component: all modules
    of the build, which find their libraries where they are installed."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    (component,) = settings["install"]["components"]
    (package,) = settings["wheel"]["packages"]
    scripts = tmp_path / "scripts"
    for script in BUILD.rglob("cmake_install.cmake"):  # a copy, since installing writes next to it
        copy = scripts / script.relative_to(BUILD)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = script.read_text().replace(f'include("{BUILD}', f'include("{scripts}')
        copy.write_text(text.replace(f'"{BUILD}/install', f'"{scripts}/install'))
    site = tmp_path / "site"
    subprocess.run(
        ["cmake", f"-DCMAKE_INSTALL_PREFIX={site}", f"-DCMAKE_INSTALL_COMPONENT={component}",
         "-P", scripts / "cmake_install.cmake"],
        check=True, capture_output=True,
    )  # fmt: skip
    built, installed = BUILD / "python_packages", site
    modules = {p.relative_to(built) for p in built.rglob("*.so")}
    assert modules
    assert modules <= {p.relative_to(installed) for p in installed.rglob("*.so")}
    tools = {name for name in settings["build"]["targets"] if name != component}
    assert tools == {p.name for p in (site / "mirage/bin").iterdir()}
    shutil.copytree(ROOT / package, site / "mirage", dirs_exist_ok=True)
    script = (
        "import mirage._target, mirage.ir, mirage.dialects.thread\n"
        "from mirage.cost import TARGETS\n"
        "assert 'sm_90a' in TARGETS\n"
        "print(mirage._target.__file__, mirage.ir.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(site) for file in done.stdout.split())
