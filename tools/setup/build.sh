#!/usr/bin/env bash
# Configures $BUILD_DIR when it is new or the flags changed, and builds it.
#   usage: [BUILD_DIR=build] [JOBS=n] build.sh [<cmake flag>…]
set -euo pipefail

root=$(realpath "$(dirname "$0")/../..")
build=$(realpath -m "${BUILD_DIR:-$root/build}")
jobs=${JOBS:-$(nproc)}
stamp=$build/.configured-with
. "$root/tools/setup/compiler.sh"

flags=(
  -DCMAKE_BUILD_TYPE=Release
  "-DPython_EXECUTABLE=$root/.venv/bin/python"
  "-DPython3_EXECUTABLE=$root/.venv/bin/python"
  "-DCMAKE_C_COMPILER=$CC"
  "-DCMAKE_CXX_COMPILER=$CXX"
  "$@"
)
if [ ! -f "$build/CMakeCache.txt" ] || [ ! -f "$build/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "${flags[*]}" ]; then
  log=$build/configure.log
  mkdir -p "$build"
  # What CMake remembers of other flags, of another compiler above all, is not mixed with these.
  rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
  echo "configuring $build"
  cmake -G Ninja -S "$root" -B "$build" "${flags[@]}" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
  echo "${flags[*]}" >"$stamp"
fi
# One build of a tree at a time.
exec flock "$build/.lock" cmake --build "$build" --parallel "$jobs"
