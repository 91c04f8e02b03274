#!/usr/bin/env bash
# Formats the C++ sources; with --check only says which ones are not formatted.
set -euo pipefail

root=$(realpath "$(dirname "$0")/..")
cd "$root"
tool=.venv/bin/clang-format
[ -x "$tool" ] || tool=clang-format
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files -z '*.cpp' '*.h' | xargs -0 -r "$tool" "${mode[@]}"
