#!/usr/bin/env bash
# Fetches the sources of MLIR's Python bindings (mlir/python, mlir/lib/Bindings/Python): Debian's
# packages hold neither. They are taken from Debian's own source package of the same upstream
# version, from the mirror that this system is set up with.
#   usage: mlir-sources.sh DESTINATION   (afterwards DESTINATION/python and DESTINATION/lib exist)
# MIRAGE_MLIR_SOURCE_DIR=<…/mlir of an LLVM source tree> uses that tree instead.
set -euo pipefail

destination=$(realpath -m "$1")
llvm_config=${LLVM_CONFIG:-/usr/lib/llvm-22/bin/llvm-config}
version=$("$llvm_config" --version)
stamp=$destination/.version
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$version" ] && exit 0

parent=$(dirname "$destination")
mkdir -p "$parent"
work=$(mktemp -d "$parent/mlir-sources.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/mlir

finish() { # a whole tree or none
  echo "$version" >"$tree/.version"
  rm -rf "$destination"
  mv "$tree" "$destination"
}

if [ -n "${MIRAGE_MLIR_SOURCE_DIR:-}" ]; then
  mkdir -p "$tree/lib/Bindings"
  cp -r "$MIRAGE_MLIR_SOURCE_DIR/python" "$tree/python"
  cp -r "$MIRAGE_MLIR_SOURCE_DIR/lib/Bindings/Python" "$tree/lib/Bindings/Python"
  finish
  exit 0
fi

# apt's own view of its configuration, whatever the format of the sources files.
mirror=$(apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(COMPONENT) $(REPO_URI)' |
  awk '$1 == "Packages" && $2 == "Debian" && $3 == "main" && $4 !~ /security/ { print $4; exit }')
if [ -z "$mirror" ]; then
  echo "error: no Debian mirror in apt's sources (expected a 'main' component of origin Debian);" \
    "run 'apt-get update', or set MIRAGE_MLIR_SOURCE_DIR to the mlir/ folder of LLVM $version" >&2
  exit 1
fi
echo "fetching the MLIR $version binding sources from $mirror"

# A private apt state: the system's sources and lists stay as they are.
mkdir -p "$work"/{parts,lists/partial,cache/archives/partial,download}
chmod 755 "$work"
private=(
  -o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=$work/parts"
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
)
found=
# bookworm's llvm-toolchain-22 came without its source; the same tarball is in a later release.
for suite in trixie trixie-updates forky sid; do
  echo "deb-src $mirror $suite main" >"$work/sources.list"
  apt-get "${private[@]}" update -qq 2>"$work/log" || continue
  # Debian versions read "1:22.1.8-1~deb13u1": match the upstream part only.
  found=$(apt-cache "${private[@]}" showsrc llvm-toolchain-22 2>/dev/null |
    awk -v want="$version" '$1 == "Version:" {
      upstream = $2; sub(/^[0-9]+:/, "", upstream); sub(/-[^-]*$/, "", upstream)
      sub(/[+~].*$/, "", upstream)
      if (upstream == want) { print $2; exit } }' || true)
  [ -n "$found" ] && break
done
if [ -z "$found" ]; then
  echo "error: no llvm-toolchain-22 source of version $version on $mirror; set" \
    "MIRAGE_MLIR_SOURCE_DIR to the mlir/ folder of LLVM $version" >&2
  cat "$work/log" >&2
  exit 1
fi
(cd "$work/download" &&
  apt-get "${private[@]}" source -qq --download-only --tar-only "llvm-toolchain-22=$found")
mkdir "$work/unpacked"
tar -xf "$work"/download/*.orig.tar.* -C "$work/unpacked" --wildcards \
  '*/mlir/python' '*/mlir/lib/Bindings/Python' '*/mlir/LICENSE.TXT'
mv "$work"/unpacked/*/mlir "$tree"
finish
