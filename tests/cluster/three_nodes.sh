#!/usr/bin/env bash
# usage: tests/cluster/three_nodes.sh
# The gate of a cluster, run by a person: a modern ClickHouse in three copies, with Keeper, under a real Tally. It kills
# and empties servers: use servers for nothing else. About 20 minutes. Prints PASSED or FAILED for each item and ends
# with status 1 where one failed. CI does not run it: it has no modern server.
#
# Needs: bash, curl 7.87, python3, analytics-server in PATH; three ClickHouse servers of one release, configured by
# deploy/clickhouse (the user `tally`); and these variables:
#   SERVERS  three URLs for Tally, with user and password: "http://tally:x@10.0.0.5:8123 http://tally:x@10.0.0.6:8123 ..."
#   KILL     a command that ends server $1 (1, 2 or 3) at once, as `kill -9` or a power switch does
#   START    a command that starts server $1 and returns when it has been started
#   EMPTY    a command that deletes the data of server $1, which is ended, and gives it another replica name ($2)
#            (all of /var/lib/clickhouse; the macro `replica`)
# With deploy/clickhouse/compose.yaml, whose ports 8123 are published as 18123, 28123 and 38123:
#   SERVERS="http://tally:$TALLY_CLICKHOUSE_PASSWORD@127.0.0.1:18123 ..."
#   KILL='docker compose -f deploy/clickhouse/compose.yaml kill clickhouse-$1'
#   START='docker compose -f deploy/clickhouse/compose.yaml up -d clickhouse-$1'
# And, if they differ: MODE (keep, or follow), TALLY_KEY (the key file that keep needs), PACE (seconds between kills, 10).
# OLD=1 leaves out what servers before 24 do not have; it is for a run of this script against the servers of
# tests/cluster/replicas.py, and proves nothing about modern ones.
# Functions are called by `item`.
# shellcheck disable=SC2317
set -uo pipefail

for name in SERVERS KILL START EMPTY; do
  [ -n "${!name:-}" ] || { echo "$name is not set: see the first lines of $0" >&2; exit 2; }
done
read -r -a urls <<<"$SERVERS"
[ "${#urls[@]}" = 3 ] || { echo "SERVERS has to name three URLs" >&2; exit 2; }
for program in curl python3 analytics-server; do
  command -v "$program" >/dev/null || { echo "$program is not in PATH" >&2; exit 2; }
done
old=${OLD:-}
kept=${MODE:-keep}
key=()
if [ "$kept" = keep ]; then
  [ -r "${TALLY_KEY:-}" ] || { echo "TALLY_KEY has to name the key file that keep needs" >&2; exit 2; }
  key=(--cluster-key "$TALLY_KEY")
fi
work=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$work"' EXIT
failed=0
pace=${PACE:-10}
# The one in which the user `tally` has rights.
database=tally
export ANALYTICS_DB="$work/analytics.db"
ANALYTICS_CLICKHOUSE=$(IFS=,; echo "${urls[*]}")
export ANALYTICS_CLICKHOUSE

passed() { echo "PASSED $1"; }
refuse() { echo "FAILED $1${2:+: $2}"; failed=1; }
# item NAME COMMAND...: passes where the command does.
item() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then passed "$name"; else refuse "$name" "$(tail -n 1 <<<"$said")"; fi
}
# ask N STATEMENT [SETTING...]: the answer of server N.
ask() {
  local url=${urls[$1 - 1]} statement=$2 setting
  shift 2
  local more=()
  for setting in "$@"; do more+=(--url-query "$setting"); done
  curl --silent --show-error --fail-with-body --max-time 120 "$url/" --url-query "database=$database" "${more[@]}" \
    --data-binary "$statement"
}
insert() { # N TABLE VALUES [SETTING...]
  local n=$1 table=$2 values=$3
  shift 3
  ask "$n" "insert into $table values $values" insert_quorum=2 "$@"
}
# Also one that has lost its database.
answers() { curl --silent --fail --max-time 20 "${urls[$1 - 1]}/" --data-binary "select 1" >/dev/null 2>&1; }
wait_for() { # SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || { echo "not within the time: $*" >&2; return 1; }
    sleep 0.5
  done
}
power() { bash -c "$1" gate "${@:2}" >>"$work/power.log" 2>&1; }
off() { power "$KILL" "$1"; }
on() { power "$START" "$1" && wait_for 120 answers "$1"; }
equals() { [ "$1" = "$2" ] || { echo "$1 in place of $2" >&2; return 1; }; }
has_quorum() { insert 1 gate "(0, 0)" >/dev/null 2>&1; }
# A replicated table of the gate, as Tally's are.
table() { # NAME: on all servers
  local n settings="fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_fetch = 1, replicated_deduplication_window = 100000"
  [ -z "$old" ] || settings="replicated_deduplication_window = 100000"
  for n in 1 2 3; do
    ask "$n" "create table $1 (n UInt64, part UInt8) engine = ReplicatedMergeTree('/tally/{shard}/$database/$1', '{replica}')
      partition by part order by n settings $settings" >/dev/null || return 1
  done
}
rows() { ask "$1" "system sync replica $2" >/dev/null && ask "$1" "select count() from $2"; }
has() { equals "$(rows "$1" "$2")" "$3"; } # N TABLE ROWS
all_have() { # TABLE ROWS
  local n
  for n in 1 2 3; do has "$n" "$1" "$2" || return 1; done
}

echo "== servers"
for n in 1 2 3; do
  item "server $n answers: $(curl --silent --max-time 20 "${urls[n - 1]}/" --data-binary "select version()")" \
    curl --silent --fail "${urls[n - 1]}/" --data-binary "create database if not exists $database"
done
if [ -n "$(ask 1 "show tables")" ]; then
  echo "the database $database has tables: the gate deletes what it finds, use empty servers" >&2
  exit 2
fi
item "a table on all three" table gate
item "cluster check" analytics-server cluster check

echo "== quorum and tokens"
item "an insert with a quorum of two" insert 1 gate "(1, 0)"
if [ -z "$old" ]; then
  repeated() {
    local n
    for n in 1 2 3 1; do insert "$n" gate "(2, 0), (3, 1)" insert_deduplication_token=gate/1 || return 1; done
    all_have gate 3
  }
  item "one token to three servers stores once" repeated
  lightweight() {
    local n m
    for n in $(seq 100 160); do
      m=$((n % 3 + 1))
      insert $((n % 2 + 1)) gate "($n, 0)" || return 1
      ask "$m" "system sync replica gate lightweight" >/dev/null || return 1
      equals "$(ask "$m" "select count() from gate where n = $n")" 1 || return 1
    done
  }
  item "after SYSTEM SYNC REPLICA ... LIGHTWEIGHT each insert is read" lightweight
else
  repeated() {
    local n
    for n in 1 2 3 1; do insert "$n" gate "(2, 0)" || return 1; done
    all_have gate 2
  }
  item "the same rows to three servers are stored once (hash in place of a token)" repeated
fi
parallel() {
  local n jobs=()
  table parallel || return 1
  for n in $(seq 1 30); do
    insert $((n % 3 + 1)) parallel "($n, $((n % 4)))" insert_quorum_timeout=20000 ${old:+insert_quorum=0} &
    jobs+=($!)
  done
  for n in "${jobs[@]}"; do wait "$n" || return 1; done
  all_have parallel 30
}
item "inserts at once to all three" parallel

echo "== what a server keeps when it is killed"
killed() {
  local n before
  for n in 1 2 3; do
    before=$(rows "$n" gate) || return 1
    insert "$n" gate "($((1000 + n)), 0)" || return 1
    off "$n"
    on "$n" || return 1
    wait_for 120 has "$n" gate $((before + 1)) || return 1
  done
}
item "what was answered is there after the kill of the server that answered" killed
fetched() { # The one that answered is away: the others have what they fetched, also after a kill of their own.
  local total
  insert 1 gate "(2000, 0)" || return 1
  total=$(rows 1 gate) || return 1
  for n in 2 3; do has "$n" gate "$total" || return 1; done
  off 2
  off 3
  on 2 || return 1
  on 3 || return 1
  all_have gate "$total"
}
item "what was fetched is there after a kill (fsync after fetch; a power cut proves more)" fetched

echo "== without a quorum"
alone() {
  off 2
  off 3
  if insert 1 gate "(3000, 0)" insert_quorum_timeout=5000 >/dev/null 2>&1; then
    echo "an insert was answered by one server of three" >&2
    return 1
  fi
  equals "$(ask 1 "select count() > 0 from gate")" 1
}
item "one of three refuses inserts, and reads" alone
back() {
  on 2 || return 1
  wait_for 120 has_quorum || return 1
  on 3 || return 1
  wait_for 120 has_quorum
}
item "with two, and three, inserts are answered again" back

echo "== mutations"
without() { equals "$(ask "$1" "select count() from gate where $2")" 0; } # N CONDITION
mutated() {
  local n settings=(mutations_sync=2)
  [ -z "$old" ] || settings=()
  ask 1 "alter table gate delete where part = 1" "${settings[@]}" || return 1
  for n in 1 2 3; do wait_for 120 without "$n" "part = 1" || return 1; done
}
item "rows deleted on one server are gone on all" mutated
mutated_without_one() {
  local answer
  off 3
  if [ -z "$old" ]; then
    answer=$(ask 1 "alter table gate delete where n = 1001" mutations_sync=0) || return 1
  else
    answer=$(ask 1 "alter table gate delete where n = 1001") || return 1
  fi
  on 3 || { echo "$answer" >&2; return 1; }
  wait_for 120 without 3 "n = 1001"
}
item "a server that was away meanwhile deletes them too" mutated_without_one

echo "== Tally: $kept"
analytics-server website add example.com >"$work/website" || exit 2
website=$(tail -n 1 "$work/website")
analytics-server cluster init || exit 2
serve() { # MODE [OPTION...]
  # What an earlier server has said is not an answer of this one.
  : >"$work/out"
  analytics-server serve --port 0 --cluster-mode "$1" "${key[@]}" --client-per-minute 10000000 \
    --website-per-minute 10000000 --max-new-values 10000000 "${@:2}" >"$work/out" 2>>"$work/err" &
  tally=$!
  listens() { grep -q '^listening on ' "$work/out"; }
  if wait_for 60 listens; then
    address=$(sed -n 's/^listening on //p' "$work/out")
    passed "it starts with $*"
  else
    refuse "it starts with $*" "$(tail -n 1 "$work/err")"
    exit 1
  fi
}
stop() { kill "$tally"; wait "$tally"; }
healthy() { curl --silent --fail "$address/healthz" >/dev/null; }
serve follow
item "websites are joined" analytics-server cluster join
if [ "$kept" = keep ]; then
  stop
  serve keep
fi
wait_for 60 healthy || exit 2

# Sends page views until the file `end` is there, again and again where there is no 202, and writes down those answered.
cat >"$work/send.py" <<'PYTHON'
import http.client, json, pathlib, sys, time, urllib.parse

address, website, work = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
answered, number = (work / "answered").open("a"), 0
while not (work / "end").exists():
    events = [
        {"website_id": website, "type": "pageview", "url": f"https://example.com/{number + n}", "event_id": f"gate-{number + n}"}
        for n in range(5)
    ]
    while not (work / "end").exists():
        try:
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
            connection.request("POST", "/api/collect", json.dumps({"events": events}), {"User-Agent": "Mozilla/5.0 Firefox/140.0"})
            if connection.getresponse().status == 202:
                answered.writelines(f"/{number + n}\n" for n in range(5))
                answered.flush()
                break
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.2)
    number += 5
    time.sleep(0.02)
PYTHON
send() { # beside what follows, until `sent`
  rm -f "$work/end"
  python3 "$work/send.py" "$address" "$website" "$work" &
  sender=$!
}
sent() { touch "$work/end"; wait "$sender"; }
send
for n in 1 2 3 1 2 3; do
  sleep "$pace"
  off "$n"
  sleep "$pace"
  on "$n" || refuse "server $n starts again"
done
# Two are away: Keeper has no quorum.
off 2
off 3
sleep "$pace"
on 2 || refuse "server 2 starts again"
on 3 || refuse "server 3 starts again"
sleep "$pace"
# A disk is gone for good, while events arrive.
off 1
power "$EMPTY" 1 gate-replaced || refuse "EMPTY"
sleep "$pace"
sent
nothing_waits() { grep -q "^waiting[[:space:]]*0 commits" <<<"$(analytics-server cluster status)"; }
item "ClickHouse gets all that was stored" wait_for 300 nothing_waits
item "commands use another server while the first is away" analytics-server cluster status
whole() { # N: nothing answered is missing, nothing is there twice
  ask "$1" "system sync replica event" >/dev/null || return 1
  ask "$1" "select pathname, count() from event group by pathname format TabSeparated" >"$work/stored" || return 1
  python3 - "$work/answered" "$work/stored" <<'PYTHON'
import sys

answered = {line.strip() for line in open(sys.argv[1])}
stored = dict(line.rstrip("\n").split("\t") for line in open(sys.argv[2]))
lost, twice = answered - stored.keys(), [name for name, times in stored.items() if times != "1"]
print(f"{len(answered)} answered, {len(stored)} stored, {len(lost)} lost, {len(twice)} twice")
sys.exit(bool(lost or twice or not answered))
PYTHON
}
item "server 2 has every event that was answered, once" whole 2
item "server 3 has every event that was answered, once" whole 3
item "the server without its disk starts" on 1
item "cluster init creates its tables" analytics-server cluster init
item "it gets everything from the others" whole 1
[ -n "$old" ] || item "cluster compare" analytics-server cluster compare --days 7

# Recovering reads ClickHouse in ways that old servers do not know.
if [ "$kept" = keep ] && [ -z "$old" ]; then
  echo "== the machine of Tally is lost"
  send
  sleep "$pace"
  kill -9 "$tally"
  wait "$tally" 2>/dev/null
  sent
  lost=$ANALYTICS_DB
  export ANALYTICS_DB="$work/second.db"
  serve keep --standby yes
  waits() { grep -q "on standby" <<<"$(curl --silent "$address/healthz")"; }
  item "a second server waits on standby" waits
  item "cluster recover" analytics-server cluster recover "${key[@]}"
  # It chooses another port.
  takes_over() { address=$(sed -n 's/^listening on //p' "$work/out" | tail -n 1); healthy; }
  item "the second server takes over" wait_for 60 takes_over
  # `item` runs it in a shell of its own.
  takes_over
  for n in 1 2 3; do item "server $n has every event that was answered, once" whole "$n"; done
  # The same events from the first one on, with the event_ids that they had.
  send
  sleep "$pace"
  sent
  item "ClickHouse gets all that the second server stores" wait_for 300 nothing_waits
  item "what is sent again counts once" whole 2
  item "cluster compare" analytics-server cluster compare --days 7
  second=$tally
  ANALYTICS_DB="$lost" serve keep
  fenced() { grep -q "another server ships to ClickHouse now" <<<"$(curl --silent "$address/healthz")"; }
  item "the lost server comes back and refuses events" wait_for 60 fenced
  stop
  tally=$second
  item "cluster leave" analytics-server cluster leave "$work/left.db"
  item "what it writes has no fault" analytics-server verify --db "$work/left.db"
fi
stop

for n in 1 2 3; do ask "$n" "drop database $database" >/dev/null 2>&1; done
if [ "$failed" = 0 ]; then echo "The gate has passed."; else echo "The gate has FAILED: see above."; fi
exit "$failed"
