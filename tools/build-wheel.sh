#!/usr/bin/env bash
# Builds a self-contained wheel into dist/: MLIR and LLVM are linked statically, so it needs no LLVM
# where it is installed, only glibc.
set -euo pipefail

root=$(realpath "$(dirname "$0")/..")
cd "$root"
mkdir -p dist
. "$root/tools/setup/compiler.sh"
.venv/bin/pip wheel . --no-deps --no-build-isolation --wheel-dir dist --verbose \
  --config-settings=cmake.define.MIRAGE_STATIC=ON \
  --config-settings=cmake.define.MIRAGE_PYTHON=ON \
  --config-settings=cmake.define.MIRAGE_MLIR_SOURCES="$root/build/_deps/mlir" \
  --config-settings=build-dir=build-static >build-wheel.log 2>&1 || {
  tail -50 build-wheel.log >&2
  exit 1
}
rm -f build-wheel.log

# In an environment of its own it must work, and must not ask for LLVM's libraries.
check=$(mktemp -d)
trap 'rm -rf "$check"' EXIT
.venv/bin/python -m venv "$check/venv"
"$check/venv/bin/pip" install --quiet dist/*.whl
if find "$check/venv" -path '*/mirage/*' -type f -exec ldd {} \; 2>/dev/null |
  grep -E 'lib(LLVM|MLIR)[-.]|not found'; then
  echo "error: expected a wheel that needs no LLVM, found the libraries above" >&2
  exit 1
fi
"$check/venv/bin/mirage-opt" --version >/dev/null
"$check/venv/bin/mirage" optimize lora_m1 --no-cache --output "$check/lora_m1" >/dev/null
ls -l dist/*.whl
