#!/usr/bin/env bash
# Installs the Debian packages that the build needs; does nothing where all of them are there.
# Needs root or sudo only when something is missing.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache git ca-certificates xz-utils
  python3 python3-venv python3-dev
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22
)
# What only the static tool and the self-contained wheel need.
if [ "${1:-}" = --static ]; then
  packages+=(libzstd-dev zlib1g-dev)
fi

missing=()
for package in "${packages[@]}"; do
  # A file list is there for each installed package: far quicker than one dpkg-query a package.
  compgen -G "/var/lib/dpkg/info/$package.list" >/dev/null ||
    compgen -G "/var/lib/dpkg/info/$package:*.list" >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "error: this set-up knows Debian's apt only; install these by hand: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "error: root or sudo is needed to install: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing system packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() {
  "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
}
# Package lists may be absent or old: refresh them only when the first try fails.
install || { "${as_root[@]}" apt-get update -q && install; }
