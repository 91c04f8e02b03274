"""``mirage cache``: earlier results of searches and compilations."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from mirage.cache import KINDS, Entry, Store, cache_folder, kind_version, size_limit
from mirage.cache.archive import export_archive, import_archive
from mirage.cache.folder import shown_size
from mirage.cli.output import Output
from mirage.errors import MirageError

SUMMARY = "list, export, import or clear the results of earlier runs"
DESCRIPTION = """\
Results of search, verification and compilation are kept on disk, so that nothing is done twice:

  list           the entries that were used last
  info           where they are, how many, how large, and of which version of mirage
  export FILE    writes them as one file
  import FILE    adds those of such a file, once all are found to be whole
  clear          removes them; safe at any time"""
EPILOG = (
    """\
kinds:
"""
    + "\n".join(f"  {kind:9} {what}" for kind, what in KINDS.items())
    + """

environment:
  MIRAGE_CACHE_DIR    the folder
  MIRAGE_CACHE_SIZE   the most that it may take (500M, 2G; 0 keeps nothing); what was not used for
                      the longest time goes first
"""
)

ACTIONS = ("list", "info", "export", "import", "clear")
WITH_FILE = ("export", "import")

SHOWN = 40
"""The number of entries that ``list`` prints."""


class CacheArgumentError(MirageError, ValueError):
    """The arguments cannot be combined."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument("file", nargs="?", type=Path, help="the archive, of export and import")
    parser.add_argument(
        "--kind",
        action="append",
        choices=tuple(KINDS),
        help="only entries of this kind; may be given several times",
    )
    parser.add_argument("--all", action="store_true", help=f"list more than {SHOWN} entries")


def run(options: argparse.Namespace, output: Output) -> int:
    """Perform the requested action."""
    action: str = options.action
    if (options.file is not None) != (action in WITH_FILE):
        expected = "a file" if action in WITH_FILE else "no file"
        got = "none" if options.file is None else str(options.file)
        raise CacheArgumentError(f"mirage cache {action}: expected {expected}, got {got}")
    if options.all and action != "list":
        raise CacheArgumentError(f"mirage cache {action}: --all is an option of list")
    if options.kind and action == "import":
        raise CacheArgumentError("mirage cache import: expected no --kind, all entries are added")
    store = Store(cache_folder(), size_limit())
    kinds: Sequence[str] = options.kind or tuple(KINDS)
    if action == "list":
        return _list(store, kinds, output, everything=options.all)
    if action == "info":
        return _info(store, kinds, output)
    if action == "export":
        count, size = export_archive(store, options.file, kinds)
        output.say(f"{options.file}: {count:,} entries, {shown_size(size)}")
        output.result({"file": str(options.file), "entries": count, "bytes": size})
        return 0
    if action == "import":
        found = import_archive(store, options.file)
        left = f", {found.left_out:,} left out (no room)" if found.left_out else ""
        output.say(f"{found.new:,} new entries, {found.known:,} were there{left}")
        output.result({"file": str(options.file), **vars(found)})
        return 1 if found.left_out else 0
    count, size = store.clear(kinds)
    output.say(f"{count:,} entries removed, {shown_size(size)}")
    output.result({"entries": count, "bytes": size})
    return 0


def _list(store: Store, kinds: Sequence[str], output: Output, *, everything: bool) -> int:
    entries = [e for e in store.entries(headers=True) if e.kind in kinds]
    entries.sort(key=lambda e: -e.used)
    shown = entries if everything else entries[:SHOWN]
    output.table(
        ("kind", "key", "what", "size", "used", "by"),
        [
            (e.kind, e.key[:12], _about(e), shown_size(e.bytes), _ago(e.used), _maker(e))
            for e in shown
        ],
    )
    if len(shown) < len(entries):
        output.say(f"{len(entries) - len(shown):,} more that were used before (--all)")
    output.result(
        {
            "entries": [
                {
                    "kind": e.kind,
                    "key": e.key,
                    "about": e.header.about if e.header else None,
                    "bytes": e.bytes,
                    "used": e.used,
                    "created": e.header.created if e.header else None,
                    "this_version": _is_current(e),
                    "damaged": e.header is None,
                }
                for e in entries
            ]
        }
    )
    return 0


def _info(store: Store, kinds: Sequence[str], output: Output) -> int:
    rows: list[tuple[str, int, int, int, int]] = []
    entries = list(store.entries(headers=True))
    for kind in kinds:
        mine = [e for e in entries if e.kind == kind]
        current = sum(_is_current(e) for e in mine)
        damaged = sum(e.header is None for e in mine)
        rows.append((kind, len(mine), sum(e.bytes for e in mine), current, damaged))
    output.table(
        ("kind", "entries", "size", "of this version", "damaged", "what"),
        [(k, n, shown_size(b), c, d, KINDS[k]) for k, n, b, c, d in rows],
    )
    total = sum(e.bytes for e in entries)
    output.say(f"{cache_folder()}: {shown_size(total)} of at most {shown_size(store.limit)}")
    names = ("kind", "entries", "bytes", "this_version", "damaged")
    output.result(
        {
            "folder": str(cache_folder()),
            "limit": store.limit,
            "bytes": total,
            "kinds": [dict(zip(names, row, strict=True)) for row in rows],
        }
    )
    return 0


def _is_current(entry: Entry) -> bool:
    return entry.header is not None and entry.header.version == kind_version(entry.kind)


def _about(entry: Entry) -> str:
    return "damaged" if entry.header is None else entry.header.about


def _maker(entry: Entry) -> str:
    return "this version" if _is_current(entry) else "another version"


def _ago(when: float) -> str:
    seconds = max(0.0, time.time() - when)
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"
