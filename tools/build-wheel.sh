#!/usr/bin/env bash
# Builds a self-contained wheel into dist/: MLIR and LLVM are linked statically, so it needs no LLVM
# where it is installed, only glibc.
set -euo pipefail

root=$(realpath "$(dirname "$0")/..")
cd "$root"
mkdir -p dist
.venv/bin/pip wheel . --no-deps --no-build-isolation --wheel-dir dist --verbose \
  --config-settings=cmake.define.MIRAGE_STATIC=ON \
  --config-settings=cmake.define.MIRAGE_PYTHON=ON \
  --config-settings=cmake.define.MIRAGE_MLIR_SOURCES="$root/build/_deps/mlir" \
  --config-settings=build-dir=build-static >build-wheel.log 2>&1 || {
  tail -50 build-wheel.log >&2
  exit 1
}
rm -f build-wheel.log
ls -l dist/*.whl
