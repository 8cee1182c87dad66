#!/usr/bin/env bash
# Builds the wheel of this checkout and prints its path.
#
#   deploy/wheel.sh DIRECTORY
#
# The build uses exactly the releases of requirements-build.lock, which are checked by hash, as that of the image does.
# `pip install .` would download the newest ones that pyproject.toml allows.
set -euo pipefail
out=$(realpath -m "${1:?usage: deploy/wheel.sh DIRECTORY}")
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/build"
pip() { "$work/build/bin/pip" --quiet --disable-pip-version-check "$@" >&2; }
pip install --require-hashes -r deploy/requirements-build.lock
pip wheel --no-index --no-deps --no-build-isolation --wheel-dir "$work/dist" .
mkdir -p "$out"
cp "$work"/dist/*.whl "$out"
echo "$out/$(basename "$work"/dist/*.whl)"
