#!/usr/bin/env bash
# Runs the tests and says at the end which runner failed; with --thorough, further cases as well.
set -uo pipefail

root=$(realpath "$(dirname "$0")/..")
cd "$root" || exit 1
build=${BUILD_DIR:-build}
failed=()
# The tests run in parallel already; more threads in each only get in each other's way.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# Hundreds of processes import the same modules: what they compile is kept (git ignores it).
unset PYTHONDONTWRITEBYTECODE

echo "== lit =="
.venv/bin/lit --succinct --verbose "$build/test" || failed+=(lit)
echo "== pytest =="
.venv/bin/python -m pytest -q -n "${JOBS:-2}" --dist worksteal test/python "$@" || failed+=(pytest)

if [ ${#failed[@]} -ne 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "PASSED: lit pytest"
