#!/usr/bin/env bash
# Makes .venv/ in the project's root with everything of requirements/dev.txt and torch, and puts
# this tree into it: `mirage` is importable and the tools are in .venv/bin. Python edits are live.
# Does nothing where the requirements were installed already.
#   usage: python-env.sh [--to-build | --to-lint]
#   --to-build: only what compiling the bindings needs; --to-lint: only requirements/lint.txt
# PYTHON=<interpreter> picks another Python (3.10 or newer, with headers).
set -euo pipefail

root=$(realpath "$(dirname "$0")/../..")
venv=$root/.venv
build=${BUILD_DIR:-$root/build}
torch_version=2.13.0

pick_python() {
  local candidate
  # The distribution's own interpreter first: its headers are among the system packages.
  for candidate in "${PYTHON:-}" /usr/bin/python3 python3; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
    "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null &&
      { echo "$candidate"; return; }
  done
  echo "error: no Python 3.10 or newer with the venv module found; set PYTHON" >&2
  return 1
}

# Modules are compiled when they are imported first: most of 15,000 files never are.
pip=("$venv/bin/pip" install --quiet --no-compile --disable-pip-version-check)

install_torch() {
  # The CPU build is enough to import, search and test; the CUDA build is gigabytes larger and is
  # wanted only where there is a GPU to launch on.
  if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    "${pip[@]}" "torch==$torch_version"
    return
  fi
  "${pip[@]}" "torch==$torch_version+cpu" 2>/dev/null ||
    "${pip[@]}" "torch==$torch_version+cpu" --extra-index-url https://download.pytorch.org/whl/cpu ||
    "${pip[@]}" "torch==$torch_version"
}

# Both may run at the same time: one of them makes the environment.
install_to() (
  flock 9
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  stamp=$venv/.requirements-to-$1
  wanted=$(sha256sum <"$root/requirements/$1.txt")
  if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    "${pip[@]}" -r "$root/requirements/$1.txt"
    echo "$wanted" >"$stamp"
  fi
) 9<"$root"

if [ "${1:-}" = --to-lint ]; then
  python=$(pick_python)
  install_to lint
  exit 0
fi

stamp=$venv/.requirements
wanted=$(cat "$root"/requirements/{build,compiler,dev,gpu,models,runtime}.txt "$0" | sha256sum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  python=$(pick_python)
  install_to build
  [ "${1:-}" != --to-build ] || exit 0
  echo "setting up $venv with $("$venv/bin/python" --version)"
  install_torch
  "${pip[@]}" -r "$root/requirements/dev.txt"
  # Compiles them while there is one process only.
  env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -c \
    'import torch.export, torch._dynamo, torch_mlir.fx'
  echo "$wanted" >"$stamp"
fi
[ "${1:-}" != --to-build ] || exit 0

# The package is in two folders: sources here, generated bindings in the build tree
# (python/mirage/__init__.py joins them).
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$root/python" "$build/python_packages" >"$site/mirage.pth"
"$venv/bin/python" "$root/tools/setup/entry-points.py" "$site"
for tool in mirage-opt mirage-lsp-server; do
  ln -sfn "$build/bin/$tool" "$venv/bin/$tool"
done
cat >"$venv/bin/mirage" <<SCRIPT
#!$venv/bin/python
import sys

from mirage.cli import main

sys.exit(main())
SCRIPT
chmod +x "$venv/bin/mirage"
