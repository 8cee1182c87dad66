#!/usr/bin/env bash
# Makes a release: version, changelog, tag, wheel, sdist, single file, clients, checksums, release notes.
#
#   deploy/release.sh VERSION [--dry-run] [--no-binary] [--out DIRECTORY]
#
# Everything is built in a temporary clone, so that only committed files are in it:
#   1. VERSION is written to pyproject.toml and to the clients; the changelog's section "## VERSION (unreleased)" or
#      "## Unreleased" gets the date.
#   2. This becomes a commit with the tag vVERSION.
#   3. The wheel, the sdist and the single file (for this machine's system and Python) are built, and SHA256SUMS of them.
#   4. The single file is started, and deploy/smoke_test.py uses it.
#   5. The Debian package, for systems with this machine's Python, where dpkg-deb is installed.
#   6. The same as 4 for a program that needs no Python (PyInstaller, for this machine's C library), unless --no-binary.
#   7. The clients: wheel and sdist for Python and, where npm is installed, the package for JavaScript.
#   8. RELEASE-NOTES.md is written: the changelog's section, how to upgrade and go back, the clients, the checksums.
# Without --dry-run the commit and the tag then come into this repository. Nothing is pushed or uploaded: the last lines
# print how.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
# Modules of another place would be imported in place of those that are built.
unset PYTHONPATH
# The build tools of a release: the lock of the image's build has hatchling, these are bounded like pyproject.toml's.
TOOLS=("build>=1.2,<2" "shiv>=1.0.8,<2")
PYINSTALLER="pyinstaller>=6.16,<7"

version= out=dist dry_run= binary=1
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry_run=1 ;;
    --no-binary) binary= ;;
    --out) out=${2:?--out needs a directory}; shift ;;
    *) version=$1 ;;
  esac
  shift
done
fail() { echo "release.sh: $1" >&2; exit 1; }
[[ "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "usage: deploy/release.sh VERSION [--dry-run] [--no-binary] [--out DIRECTORY]; VERSION is like 1.2.0 (got '$version')"
[ -n "$dry_run" ] || [ -z "$(git status --porcelain)" ] || fail "there are uncommitted changes: commit or remove them first"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "the tag v$version exists already"
mkdir -p "$out"
out=$(cd "$out" && pwd)

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
git clone --quiet "$here" "$work/tally"
cd "$work/tally"

echo "== version and changelog"
python3 - "$version" <<'PYTHON'
import datetime, pathlib, re, sys

version = sys.argv[1]


def replace(name: str, pattern: str, text: str) -> None:
    path = pathlib.Path(name)
    changed, count = re.subn(pattern, text, path.read_text(), flags=re.MULTILINE)
    if not count:
        sys.exit(f"release.sh: {name} has no line {pattern}")
    path.write_text(changed)


replace("pyproject.toml", r'^version = ".*"$', f'version = "{version}"')
replace("clients/python/pyproject.toml", r'^version = ".*"$', f'version = "{version}"')
replace("clients/python/src/tally_client/connection.py", r'^VERSION = ".*"$', f'VERSION = "{version}"')
replace("clients/js/package.json", r'^  "version": ".*",$', f'  "version": "{version}",')
day = datetime.datetime.now(datetime.UTC).date()
replace("CHANGELOG.md", rf"^## (?:Unreleased|{re.escape(version)} \(unreleased\))$", f"## {version} ({day})")
PYTHON
git -c user.name="${GIT_AUTHOR_NAME:-$(git -C "$here" config user.name || echo release)}" \
  -c user.email="${GIT_AUTHOR_EMAIL:-$(git -C "$here" config user.email || echo release@localhost)}" \
  commit --quiet --all --message "Release $version"
git tag "v$version"

echo "== wheel and sdist"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet "${TOOLS[@]}"
"$work/tools/bin/python" -m build --outdir "$work/dist" . >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }

echo "== single file"
"$work/tools/bin/pip" install --quiet --target "$work/site" --require-hashes -r deploy/requirements.lock
"$work/tools/bin/pip" install --quiet --target "$work/site" --no-index --no-deps "$work"/dist/*.whl
platform=$(python3 -c 'import sys, sysconfig; print(sysconfig.get_platform() + "-cp%d%d" % sys.version_info[:2])')
"$work/tools/bin/shiv" --reproducible --compressed --python "/usr/bin/env python3" --site-packages "$work/site" \
  --console-script analytics-server --output-file "$work/dist/tally-$version-$platform.pyz" >/dev/null

# Starts a built server and uses it.
use() {
  rm -rf "$work/run"
  mkdir "$work/run"
  cd "$work/run"
  export SHIV_ROOT="$work/run"
  local found
  found=$("$@" --version)
  [[ "$found" == "analytics-server $version "* ]] || fail "$* is of another version: $found"
  "$@" serve --port 0 >log 2>&1 &
  server=$!
  for _ in $(seq 300); do grep -q '^listening on ' log && break; kill -0 "$server" || { cat log >&2; exit 1; }; sleep 0.2; done
  python3 "$work/tally/deploy/smoke_test.py" log
  kill "$server"
  wait "$server"
  server=
}

echo "== start the single file and use it"
use python3 "$work/dist/tally-$version-$platform.pyz"

if command -v dpkg-deb >/dev/null; then
  echo "== Debian package"
  DEBFULLNAME=${DEBFULLNAME:-$(git -C "$work/tally" log -1 --format=%cn)} DEBEMAIL=${DEBEMAIL:-$(git -C "$work/tally" log -1 --format=%ce)} \
    "$work/tally/deploy/deb.sh" --site "$work/site" --out "$work/dist"
else
  echo "== no Debian package: dpkg-deb is not installed"
fi

if [ -n "$binary" ]; then
  echo "== the program that needs no Python"
  python3 -m venv "$work/frozen"
  frozen=$work/frozen/bin
  "$frozen/pip" install --quiet "$PYINSTALLER"
  "$frozen/pip" install --quiet --require-hashes -r "$work/tally/deploy/requirements.lock"
  "$frozen/pip" install --quiet --no-index --no-deps "$work"/dist/*.whl
  cd "$work/frozen"
  # These packages are imported, or read their own files, by name.
  collected=()
  for package in tally fido2 publicsuffixlist tzdata ua_parser ua_parser_builtins ua_parser_rs; do collected+=(--collect-all "$package"); done
  "$frozen/pyinstaller" --onefile --log-level WARN --name "tally-$version-${platform%-cp*}" --distpath "$work/dist" \
    "${collected[@]}" --hidden-import uvloop --copy-metadata tally-analytics-server \
    "$("$frozen/python" -c 'import analytics_server; print(analytics_server.__file__)')"
  use "$work/dist/tally-$version-${platform%-cp*}"
fi

# Last: the steps before take the one wheel that is there.
echo "== clients"
cd "$work/tally/clients"
"$work/tools/bin/python" -m build --outdir "$work/dist" python >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
if command -v npm >/dev/null; then
  (cd js && npm pack --silent --pack-destination "$work/dist" >/dev/null)
else
  echo "no package for JavaScript: npm is not installed"
fi

cd "$work/dist"
# Not in one pipeline: the shell may create the file before it expands the pattern.
sums=$(sha256sum ./*)
sed 's# \./# #' <<<"$sums" >SHA256SUMS

echo "== release notes"
schema=$(PYTHONPATH="$work/site" python3 -c 'from tally.storage.database import VERSION; print(VERSION)')
python3 - "$version" "$schema" "$work/tally/CHANGELOG.md" >RELEASE-NOTES.md <<'PYTHON'
import pathlib, re, sys

version, schema, changelog = sys.argv[1:]
section = re.compile(rf"^## ({re.escape(version)} \(.*?\))$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
heading, changes = section.search(pathlib.Path(changelog).read_text("utf-8")).groups()


def names(*patterns: str) -> list[str]:
    return [path.name for pattern in patterns for path in sorted(pathlib.Path().glob(pattern))]


wheel, sdist, single = names("tally_analytics_server-*.whl", "tally_analytics_server-*.tar.gz", "*.pyz")
clients = [f"- Python: `pip install {name}`" for name in names("tally_analytics_client-*.whl")]
clients += [f"- JavaScript: `npm install ./{name}`" for name in names("*.tgz")]
clients = "\n".join(clients)
print(f"""\
# Tally {heading}

{changes.strip()}

## Upgrade

The schema version of the database is {schema}. `analytics-server upgrade --check` of this release says whether its first
start changes the database, and where it makes a copy before.

- pip: `pip install {wheel}`, then restart the server.
- Single file: stop the server, replace the file by `{single}`, start it.
- Debian package: `apt install ./tally_...deb` with the file of your distribution's Python.
- Container: `docker build -t tally -f deploy/Dockerfile .` in a clone at the tag `v{version}` or in the unpacked
  `{sdist}`, then replace the container.

## Go back

Install the previous release and restart the server. Where the schema version has changed, also restore the copy made
before the upgrade, with the previous release: `analytics-server restore COPY --db FILE`. Its `doctor` names the
command. Events collected since the upgrade are not in the copy. docs/upgrading.md has the details.

## Clients

{clients}

## Checksums

SHA-256, as in the file SHA256SUMS:

```text
{pathlib.Path("SHA256SUMS").read_text()}```""")
PYTHON
cp ./* "$out/"
ls -l "$out"
if [ -n "$dry_run" ]; then
  echo "dry run: version $version was built into $out; nothing was committed or tagged"
  exit 0
fi
cd "$here"
git pull --quiet --ff-only "$work/tally" HEAD
git fetch --quiet "$work/tally" "refs/tags/v$version:refs/tags/v$version"
echo "committed and tagged v$version. Next:"
echo "  git push origin HEAD v$version"
echo "  attach the files of $out to the release v$version, with RELEASE-NOTES.md as its text"
echo "  python -m twine upload $out/tally_analytics_*-$version*"
[ ! -e "$out/tally-analytics-client-$version.tgz" ] || echo "  npm publish $out/tally-analytics-client-$version.tgz"
