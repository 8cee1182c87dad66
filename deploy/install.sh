#!/usr/bin/env bash
# Installs Tally as a service of systemd, or updates it. In a clone of the repository, as root:
#
#   deploy/install.sh
#
# - the user tally, if it does not exist
# - the program in /opt/tally, with exactly the releases of requirements.lock, built with those of
#   requirements-build.lock
# - tally.service and tally.socket in /etc/systemd/system; changes belong into `systemctl edit tally.service`
# - /etc/tally.env for settings, if it does not exist
# Where systemd runs, the service is started, and its log, with the setup link, is shown. The start of a release that
# changes the database makes a copy of it first (docs/upgrading.md).
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "install.sh: $1" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "run it as root: sudo deploy/install.sh"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' ||
  fail "Python 3.11 or later with venv is needed: apt-get install python3-venv"

getent passwd tally >/dev/null || useradd --system --home-dir /var/lib/tally --no-create-home --shell /usr/sbin/nologin tally
install -d -o tally -g tally -m 700 /var/lib/tally

[ -x /opt/tally/bin/python ] || python3 -m venv /opt/tally
/opt/tally/bin/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/requirements.lock
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheel=$(deploy/wheel.sh "$work")
/opt/tally/bin/pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"

# The group of the proxy may use /run/tally.sock.
group=tally
for name in www-data nginx caddy http; do
  if getent group "$name" >/dev/null; then group=$name; break; fi
done
install -d /etc/systemd/system
install -m 644 deploy/tally.service /etc/systemd/system/tally.service
sed "s/^SocketGroup=.*/SocketGroup=$group/" deploy/tally.socket >/etc/systemd/system/tally.socket
chmod 644 /etc/systemd/system/tally.socket
# It may hold the metrics token.
[ -e /etc/tally.env ] || install -m 600 /dev/null /etc/tally.env

/opt/tally/bin/analytics-server --version
if [ ! -d /run/systemd/system ]; then
  echo "systemd does not run here: nothing was started"
  exit 0
fi
systemctl daemon-reload
systemctl enable --quiet tally.socket tally.service
systemctl start tally.socket
systemctl restart tally.service
journalctl --unit=tally --since=-1min --no-pager --output=cat
