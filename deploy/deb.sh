#!/usr/bin/env bash
# Builds tally_VERSION+pyPYTHON_ARCHITECTURE.deb, for this machine's architecture and a system with the Python of python3.
#
#   deploy/deb.sh [--site DIRECTORY] [--out DIRECTORY]
#
# The package has the modules of this checkout and the releases of requirements.lock in /usr/lib/tally, the command, the
# units with its path, and the scripts of deploy/debian. --site names a directory in which these modules are installed
# already, as deploy/release.sh has it.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "deb.sh: $1" >&2; exit 1; }
unset PYTHONPATH

modules= out=dist
while [ $# -gt 0 ]; do
  case "$1" in
    --site) modules=${2:?--site needs a directory}; shift ;;
    --out) out=${2:?--out needs a directory}; shift ;;
    *) fail "usage: deploy/deb.sh [--site DIRECTORY] [--out DIRECTORY] (got '$1')" ;;
  esac
  shift
done
command -v dpkg-deb >/dev/null || fail "dpkg-deb is needed: build it on Debian or Ubuntu"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

root=$work/root site=$work/root/usr/lib/tally doc=$work/root/usr/share/doc/tally
install -d "$root/usr/lib" "$root/usr/lib/systemd/system" "$doc" "$root/DEBIAN"
if [ -n "$modules" ]; then
  cp -r "$modules" "$site"
else
  python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or later with venv is needed: apt-get install python3-venv"
  python3 -m venv "$work/tools"
  add() { "$work/tools/bin/pip" install --quiet --disable-pip-version-check --no-compile --target "$site" "$@"; }
  add --require-hashes -r deploy/requirements.lock
  rm -r "$site/bin"
  wheel=$(deploy/wheel.sh "$work/dist")
  add --no-index --no-deps "$wheel"
fi
rm -rf "$site/bin"
find "$site" -name __pycache__ -prune -exec rm -r {} +
version=$(PYTHONPATH=$site python3 -Bc 'from importlib.metadata import version; print(version("tally-analytics-server"))')

install -D -m 755 deploy/debian/analytics-server "$root/usr/bin/analytics-server"
install -D -m 600 deploy/debian/tally.env "$root/etc/tally.env"
for unit in tally.service tally.socket; do
  sed 's|/opt/tally/bin/|/usr/bin/|' "deploy/$unit" >"$root/usr/lib/systemd/system/$unit"
done
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nCopyright: %s\n' \
    "$(sed -n 's/^Copyright (c) //p' LICENSE)"
  printf 'License: MIT\n'
  tail -n +5 LICENSE | sed 's/^$/./; s/^/ /'
  printf '\nComment: each directory *.dist-info of /usr/lib/tally has the license of its package.\n'
} >"$doc/copyright"
# The packages of Python differ, so an upgrade of the distribution needs another package of the same release.
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$(python3 -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
full=$version+py$python architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-Tally} <${DEBEMAIL:-tally@localhost.localdomain}>"
printf 'tally (%s) unstable; urgency=medium\n\n  * Release %s: see CHANGELOG.md.gz.\n\n -- %s  %s\n' \
  "$full" "$version" "$maintainer" "$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")" | gzip -9n >"$doc/changelog.gz"
gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
cat >"$root/DEBIAN/control" <<CONTROL
Package: tally
Version: $full
Architecture: $architecture
Maintainer: $maintainer
Section: web
Priority: optional
Depends: python3 (>= $python), python3 (<< $next), libc6 (>= 2.28), libstdc++6, adduser
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Description: self-hosted analytics for websites and apps
 One process and one SQLite file, without cookies. Events are on disk before
 they are acknowledged, and figures are exact. The dashboard has goals, funnels,
 journeys, web vitals, heatmaps, A/B tests and share links.
CONTROL
echo /etc/tally.env >"$root/DEBIAN/conffiles"
install -m 755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$root/usr"
find "$site" -type f -exec chmod 644 {} +
mkdir -p "$out"
dpkg-deb -Zzstd --root-owner-group --build "$root" "$out/tally_${full}_$architecture.deb"
