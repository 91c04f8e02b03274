"""`mirage cache`: its contents, export and import as one file, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mirage.cache import KINDS, Store, key_of, kind_version
from mirage.cli import main
from mirage.pipeline.parts import part as part_module

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(64, 32, bias=False, dtype=torch.float16)
    def forward(self, x):
        return torch.nn.functional.silu(self.proj(x))

net = Net().requires_grad_(False)
example_inputs = (torch.randn(16, 64).half(),)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def filled(folder: Path) -> Store:
    store = Store(folder, 1 << 20)
    for kind in KINDS:
        store.put(kind, key_of(kind, 1), b"x" * 1000, version=kind_version(kind), about=f"a {kind}")
    store.put("code", key_of("code", 2), b"y", version="old", about="of another version")
    broken = store.place("code", key_of("code", 3))
    assert broken is not None
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_bytes(b"half")
    return store


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_second_optimize_searches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "net.py"
    program.write_text(PROGRAM)
    options = ("--candidates", 1, "--jobs", 1, "--no-cubin", "--chip", "sm_90a")
    first = run_json(capsys, "optimize", program, "-o", tmp_path / "a.mirage", *options)
    for name in ("search_part", "verify_candidates"):
        monkeypatch.setattr(part_module, name, lambda *_: pytest.fail("searched again"))
    second = run_json(capsys, "optimize", program, "-o", tmp_path / "b.mirage", *options)
    assert first[0] == second[0] == 0
    same = ("candidates", "verdicts", "mlir", "description", "prediction", "search")
    assert {k: first[1][k] for k in same} == {k: second[1][k] for k in same}
    files = [sorted((tmp_path / f"{n}.mirage").iterdir()) for n in "ab"]
    for mine, theirs in zip(*files, strict=True):
        assert mine.read_bytes() == theirs.read_bytes()
    capsys.readouterr()
    emit = ("--emit", "verified")
    assert (
        main([*map(str, ("optimize", program, "-o", tmp_path / "c.mirage", *options, *emit))]) == 0
    )
    said = capsys.readouterr().out
    assert "found before" in said
    assert "kernel.alternatives" in said
    monkeypatch.setenv("MIRAGE_DEBUG", "1")
    again = [*map(str, ("optimize", program, "-o", tmp_path / "d.mirage", *options, "--fresh"))]
    with pytest.raises(pytest.fail.Exception):
        main(again)


def test_list(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = run_json(capsys, "cache", "list")
    assert code == 0
    assert len(data["entries"]) == len(KINDS) + 2
    assert sum(e["damaged"] for e in data["entries"]) == 1
    assert sum(not e["this_version"] for e in data["entries"]) == 2
    assert main(["cache", "list", "--kind", "code"]) == 0
    said = capsys.readouterr().out
    assert "a code" in said
    assert "another version" in said
    assert "damaged" in said
    assert "a search" not in said


def test_a_long_list(
    filled: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mirage.cli.commands import cache

    monkeypatch.setattr(cache, "SHOWN", 3)
    assert main(["cache", "list"]) == 0
    assert f"{len(KINDS) - 1} more that were used before (--all)" in capsys.readouterr().out
    assert main(["cache", "list", "--all"]) == 0
    assert "more that were" not in capsys.readouterr().out


def test_info(filled: Store, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = run_json(capsys, "cache", "info")
    assert code == 0
    assert data["folder"] == str(folder)
    assert data["limit"] == 2 << 30
    kinds = {row["kind"]: row for row in data["kinds"]}
    assert set(kinds) == set(KINDS)
    assert (kinds["code"]["entries"], kinds["code"]["this_version"]) == (3, 1)
    assert kinds["code"]["damaged"] == 1
    assert data["bytes"] == sum(row["bytes"] for row in data["kinds"])
    assert main(["cache", "info"]) == 0
    assert "of at most 2.0 GiB" in capsys.readouterr().out


def test_an_empty_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_json(capsys, "cache", "list") == (0, {"entries": []})
    code, data = run_json(capsys, "cache", "info")
    assert (code, data["bytes"]) == (0, 0)
    assert run_json(capsys, "cache", "clear") == (0, {"entries": 0, "bytes": 0})
    archive = tmp_path / "none"
    assert main(["cache", "export", str(archive)]) == 0
    assert main(["cache", "import", str(archive)]) == 0
    assert "0 new entries, 0 were there" in capsys.readouterr().out


def test_there_and_back(filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "kept.mirage-cache"
    code, data = run_json(capsys, "cache", "export", archive)
    assert (code, data["entries"]) == (0, len(KINDS) + 1)  # except for the damaged one
    code, data = run_json(capsys, "cache", "clear")
    assert (code, data["entries"]) == (0, len(KINDS) + 2)
    assert not list(filled.entries())
    code, data = run_json(capsys, "cache", "import", archive)
    assert (code, data["new"], data["known"]) == (0, len(KINDS) + 1, 0)
    assert filled.get("search", key_of("search", 1)) == b"x" * 1000
    assert main(["cache", "import", str(archive)]) == 0
    assert f"0 new entries, {len(KINDS) + 1} were there" in capsys.readouterr().out


def test_some_kinds(filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "a"
    code, data = run_json(capsys, "cache", "export", archive, "--kind", "search", "--kind", "check")
    assert (code, data["entries"]) == (0, 2)
    code, data = run_json(capsys, "cache", "clear", "--kind", "search")
    assert (code, data["entries"]) == (0, 1)
    assert {e.kind for e in filled.entries()} == set(KINDS) - {"search"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export"], "mirage cache export: expected a file, got none"),
        (["import"], "mirage cache import: expected a file, got none"),
        (["list", "x"], "mirage cache list: expected no file, got x"),
        (["clear", "x"], "mirage cache clear: expected no file, got x"),
        (["clear", "--all"], "--all is an option of list"),
        (["import", "x", "--kind", "code"], "expected no --kind"),
        (["import", "nowhere"], "nowhere: expected an archive of a cache"),
        (["export", "/dev/null/x"], "cannot be written"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, filled: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    count = len(list(filled.entries()))
    assert main(["cache", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert len(list(filled.entries())) == count


@pytest.mark.parametrize("arguments", [[], ["remove"], ["list", "--kind", "codes"]])
def test_bad_words(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", *arguments]) == 2
    assert "error" in capsys.readouterr().err


def test_a_bad_size_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE_SIZE", "lots")
    assert main(["cache", "info"]) == 2
    assert "expected a size like 500M or 2G" in capsys.readouterr().err


def test_an_import_without_room(
    filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    archive = tmp_path / "a"
    run_json(capsys, "cache", "export", archive)
    run_json(capsys, "cache", "clear")
    monkeypatch.setenv("MIRAGE_CACHE_SIZE", "60")
    code, data = run_json(capsys, "cache", "import", archive)
    assert code == 1
    assert data["left_out"] == len(KINDS) + 1
    monkeypatch.setenv("MIRAGE_CACHE_SIZE", "0")
    code, data = run_json(capsys, "cache", "import", archive)
    assert code == 2
