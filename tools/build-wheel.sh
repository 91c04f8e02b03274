#!/usr/bin/env bash
# Builds self-contained wheels into dist/: MLIR and LLVM are linked statically, so they need no LLVM
# where they are installed, only glibc.
#   usage: build-wheel.sh [PYTHON …]
# Builds a wheel for each interpreter (with headers; the one of .venv by default). What does not
# depend on Python is compiled once, if there is a compiler cache.
set -euo pipefail

root=$(realpath "$(dirname "$0")/..")
cd "$root"
mkdir -p dist
. "$root/tools/setup/compiler.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Puts the wheel for $1 into dist/. Its build folder stays: a wheel after a change takes less time.
build() {
  "$1" -m venv "$work/build"
  "$work/build/bin/pip" install --quiet -r requirements/build.txt 'scikit-build-core>=0.10.7,<1'
  "$work/build/bin/pip" wheel . --no-deps --no-build-isolation --wheel-dir "$work/dist" --verbose \
    --config-settings=cmake.define.MIRAGE_STATIC=ON \
    --config-settings=cmake.define.MIRAGE_PYTHON=ON \
    --config-settings=cmake.define.MIRAGE_MLIR_SOURCES="$root/build/_deps/mlir" \
    --config-settings=build-dir='build-static/{cache_tag}' >build-wheel.log 2>&1 || {
    tail -50 build-wheel.log >&2
    exit 1
  }
  rm -rf build-wheel.log "$work/build"
}

# In an environment of its own the wheel must work, and must not ask for LLVM's libraries.
check() {
  "$1" -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet "$work"/dist/*.whl
  if find "$work/venv" -path '*/mirage/*' -type f -exec ldd {} \; 2>/dev/null |
    grep -E 'lib(LLVM|MLIR)[-.]|not found'; then
    echo "error: expected a wheel that needs no LLVM, found the libraries above" >&2
    exit 1
  fi
  "$work/venv/bin/mirage-opt" --version >/dev/null
  "$work/venv/bin/mirage" optimize lora_m1 --no-cache --output "$work/lora_m1" >/dev/null
  rm -rf "$work/venv" "$work/lora_m1"
}

for python in "${@:-$root/.venv/bin/python}"; do
  build "$python"
  check "$python"
  mv "$work"/dist/*.whl dist/
done
ls -l dist/*.whl
