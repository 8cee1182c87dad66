"""Plants faults one by one in a copy of the code and expects the tests to fail: a test that cannot fail proves nothing.

    python tests/mutation/faults.py [--note] [--part N/K] [NAME ...]

Each fault is one exact replacement in one file. For each, the named part of the suite runs on the copy and must fail;
with the code as it is, the same must pass, which is checked first. Exit status 0 if every fault was found.

tests/mutation/noticed.json remembers which test of the part noticed: that one is asked first, and the whole part only
where it did not, or is no more. `--note` writes the file anew from what is found, for the faults named; all of them
take a quarter of an hour so, and seven minutes with it. `--part`: every K-th fault, a K-th of all, another one for each
N.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# One for each core of the smallest machine that runs this.
AT_ONCE = 2
NOTICED = ROOT / "tests" / "mutation" / "noticed.json"


class Fault(NamedTuple):
    """`old` stands exactly once in `file` and becomes `new`; `tests` must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = (
    Fault(
        "without the compiled engine no User-Agent is read",
        "tally/events/user_agent.py",
        "(RegexResolver or BasicResolver)(",
        "RegexResolver(",
        "tests/unit/events/test_user_agent.py",
    ),
    Fault(
        "a database of two names is taken",
        "tally/storage/database.py",
        "    if found.st_nlink - len(own) > 1:",
        "    if found.st_nlink - len(own) > 2:",
        "tests/unit/cli/test_commands.py",
    ),
    Fault(
        "a start that fails leaves its files",
        "tally/cli/serve.py",
        "        if not is_listening:\n",
        "        if is_listening:\n",
        "tests/unit/cli/test_commands.py",
    ),
    Fault(
        "a domain is added twice through the pages",
        "tally/accounts/changes.py",
        "    if not again:\n",
        "    if again:\n",
        "tests/api/test_account_api.py",
    ),
    Fault(
        "new values are not bounded",
        "tally/storage/value_limits.py",
        "            if taken + cost > limit:\n",
        "            if taken + cost > limit + 1_000_000:\n",
        "tests/api/test_value_limits.py",
    ),
    Fault(
        "one client uses up a day's new values",
        "tally/storage/value_limits.py",
        "if self._used_of(share) + cost <= limit:",
        "if self._used_of(share) + cost <= limit + 1_000_000:",
        "tests/api/test_value_limits.py",
    ),
    Fault(
        "a rejected event makes labels",
        "tally/ingest/writer.py",
        "                    return NO_ASSIGNMENT\n",
        "                    self._kept.append(row)\n                    return NO_ASSIGNMENT\n",
        "tests/api/test_value_limits.py",
    ),
    Fault(
        "a request without an assignment takes no token",
        "tally/ingest/collector.py",
        "        if NO_ASSIGNMENT not in outcome:\n",
        "        if True:\n",
        "tests/api/test_value_limits.py",
    ),
    Fault(
        "a failed commit leaves values known",
        "tally/ingest/writer.py",
        "            self.value_limits.forget()\n",
        "",
        "tests/api/test_value_limits.py",
    ),
    Fault(
        "an almost full disk refuses nothing",
        "tally/storage/health.py",
        "        if self.is_low:\n            raise ApiError(",
        "        if self.is_low and self.is_stuck:\n            raise ApiError(",
        "tests/robustness/test_min_free_disk.py",
    ),
    Fault(
        "a deleted website keeps what it used of the month",
        "tally/maintenance/deletion.py",
        "        (website, month_of(now_ms)),\n",
        "        (website, 0),\n",
        "tests/api/test_budgets.py",
    ),
    Fault(
        "a demo is not marked",
        "tally/demo/build.py",
        "        meta.write(connection, meta.DEMO, iso(until_ms))\n",
        "        meta.write(connection, meta.DEMO, None)\n",
        "tests/unit/cli/test_demo.py",
    ),
    Fault(
        "a demo fills the database that the environment names",
        "tally/cli/demo.py",
        "path = settings.db if given.db else DEFAULT_FILE",
        "path = settings.db",
        "tests/unit/cli/test_demo.py",
    ),
    Fault(
        "an interrupted demo leaves its file",
        "tally/demo/build.py",
        """        return stored
    finally:
        _drop(unfinished)""",
        "        return stored\n    finally:\n        pass",
        "tests/unit/cli/test_demo.py",
    ),
    Fault(
        "of views at one moment the first to arrive is the exit page",
        "tally/storage/sql/visits.py",
        '"exit": "ts desc, event.id desc"',
        '"exit": "ts desc, event.id"',
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "an exit page is looked for from the beginning of the visit",
        "tally/storage/sql/visits.py",
        'f" order by {_ORDER[side]} limit 1), 0), 0)"',
        '" order by ts, event.id limit 1), 0), 0)"',
        "tests/unit/reports/test_stats.py tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "late events bring no names",
        "tally/ingest/writer.py",
        "*row[6 : 7 + len(FIELDS)])",
        "*row[6 : 6 + len(FIELDS)], 0)",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a gap of 29 minutes",
        "tally/events/visits.py",
        "VISIT_GAP_MS = 30 * 60 * 1000",
        "VISIT_GAP_MS = 29 * 60 * 1000",
        "tests/unit/events/test_sessions.py",
    ),
    Fault(
        "73 hours",
        "tally/events/validation.py",
        "OLDEST_MS = 72 * 3_600_000",
        "OLDEST_MS = 73 * 3_600_000",
        "tests/api/test_collect_fields.py",
    ),
    Fault(
        "synchronous OFF",
        "tally/storage/database.py",
        "pragma synchronous = full",
        "pragma synchronous = off",
        "tests/unit/ingest/test_store.py",
    ),
    Fault(
        "a dropped dot in the origin check",
        "tally/events/urls.py",
        'host.endswith("." + domain)',
        "host.endswith(domain)",
        "tests/unit/events/test_urls.py",
    ),
    Fault(
        "X-Forwarded-For believed from anyone",
        "tally/events/client.py",
        "    if not forwarded or not _is_trusted(believed, trusted):\n        return believed\n    read",
        "    if not forwarded:\n        return believed\n    read",
        "tests/unit/events/test_client.py",
    ),
    Fault(
        "the answer before the commit",
        "tally/ingest/group_commit.py",
        "        self._writer.start(",
        "        for one, tell in group:\n            tell([None] * len(one.events))\n        self._writer.start(",
        "tests/unit/ingest/test_store.py",
    ),
    Fault(
        "groups that begin while the next requests of who was answered come in",
        "tally/ingest/group_commit.py",
        "looks = min(len(group) - 1, MOST_LOOKS)",
        "looks = 0",
        "tests/unit/ingest/test_store.py::test_who_was_just_answered_is_waited_for",
    ),
    Fault(
        "groups that wait as long as somebody comes",
        "tally/ingest/group_commit.py",
        "self.queue < ENOUGH_EVENTS and ",
        "",
        "tests/unit/ingest/test_store.py::test_enough_is_not_waited_with",
    ),
    Fault(
        "groups that wait however slowly others come",
        "tally/ingest/group_commit.py",
        " and self._clock.monotonic_ns() < end_ns",
        "",
        "tests/unit/ingest/test_store.py::test_enough_is_not_waited_with",
    ),
    Fault(
        "newcomers for whom a group does not wait anew",
        "tally/ingest/group_commit.py",
        "left = looks if found > before else left - 1",
        "left -= 1",
        "tests/unit/ingest/test_store.py::test_who_was_just_answered_is_waited_for",
    ),
    Fault(
        "days taken for hours where a range begins an hour before midnight",
        "tally/reports/stats.py",
        "edges[m][1] - from_ms != (m + 1 - n) * HOUR_MS",
        "edges[m][1] - from_ms < (m + 1 - n) * HOUR_MS",
        "tests/unit/reports/test_stats.py::test_a_series_that_begins_or_ends_amid_a_day",
    ),
    Fault(
        "work in the background that leaves commits as much as it takes",
        "tally/ingest/store.py",
        "max(0, now.at_ns - before.at_ns - others_ns)",
        "(now.at_ns - before.at_ns)",
        "tests/unit/ingest/test_store.py::test_the_work_in_the_background_waits_for_commits_and_for_nothing_else",
    ),
    Fault(
        "a 202 for what is in a deleted file",
        "tally/ingest/group_commit.py",
        "        files.check_database()\n        files.check_log()\n",
        "",
        "tests/robustness/test_failing_disk.py::test_a_file_that_goes_while_it_is_written",
    ),
    Fault(
        "a deleted log that nobody misses",
        "tally/ingest/group_commit.py",
        "        files.check_log()\n",
        "",
        "tests/robustness/test_failing_disk.py::test_a_file_that_goes_while_it_is_written",
    ),
    Fault(
        "an owner's change in a deleted file",
        "tally/ingest/store.py",
        "            self.health.files.check_database()\n            self.health.files.check_log()\n            return",
        "            return",
        "tests/robustness/test_failing_disk.py::test_an_owners_change_is_no_change_in_a_deleted_file",
    ),
    Fault(
        "damage that a small write heals",
        "tally/storage/recovery.py",
        "        if fault == DAMAGED:\n"
        "            look = await asyncio.to_thread(look_for_damage, self._path, MOST_CHECK_S)\n"
        "            if look.is_damaged or not look.is_whole:\n"
        "                health.not_before_s = time.monotonic() + CHECK_AGAIN_S\n"
        "                return\n"
        "        await self._writer.run(try_to_write)\n"
        "        try:\n"
        "            is_damaged = fault != FAILING and await self._looks_damaged()\n",
        "        await self._writer.run(try_to_write)\n        try:\n            is_damaged = False\n",
        "tests/robustness/test_failing_disk.py::test_a_small_write_heals_no_damage",
    ),
    Fault(
        "damage that an event heals",
        "tally/storage/health.py",
        'return not self.missing and not self.is_stuck and self.fault in ("", FAILING)',
        "return not self.missing and not self.is_stuck",
        "tests/robustness/test_failing_disk.py::test_nothing_is_added_to_a_damaged_file",
    ),
    Fault(
        "connections kept after a failed fsync",
        "tally/storage/recovery.py",
        "        await self._open_anew()\n        return not self._is_shut",
        "        return not self._is_shut",
        "tests/robustness/test_failing_disk.py::test_after_a_failed_fsync_every_connection_is_another_one",
    ),
    Fault(
        "a start without a look at the file",
        "tally/ingest/lifecycle.py",
        "if look_for_damage(path, START_CHECK_S).is_damaged:",
        "if False:",
        "tests/robustness/test_failing_disk.py::test_a_start_on_a_damaged_file",
    ),
    Fault(
        "a log that is not copied before it is forgotten",
        "tally/storage/recovery.py",
        "                is_saved = await self._writer.run(truncate_wal)\n",
        "                is_saved = True\n",
        "tests/robustness/test_failing_disk.py::test_a_database_that_is_moved_away",
    ),
    Fault(
        "a full disk that only an event finds",
        "tally/storage/recovery.py",
        "        await self._writer.run(lambda connection: try_to_write(connection, size_bytes))\n",
        "",
        "tests/robustness/test_failing_disk.py::test_a_full_disk_is_noticed_while_nobody_sends",
    ),
    Fault(
        "a writer that may be stuck",
        "tally/storage/health.py",
        "self.is_stuck = is_stuck",
        "self.is_stuck = False",
        "tests/robustness/test_failing_disk.py::test_a_disk_that_does_not_answer",
    ),
    Fault(
        "a log that repeats itself",
        "tally/http/logging.py",
        "    handler.addFilter(RepeatFilter(key=formatter.key))\n",
        "",
        "tests/unit/http/test_logging.py",
    ),
    Fault(
        "a request in two transactions",
        "tally/ingest/writer.py",
        "        self._store_visits()\n        moments",
        '        self._store_visits()\n        run.execute("commit")\n        run.execute("begin immediate")'
        "\n        moments",
        "tests/robustness/test_crash.py",
    ),
    Fault(
        "a migration without a transaction",
        "tally/storage/database.py",
        "        with transaction(connection):\n            # Another",
        "        with contextlib.nullcontext():\n            # Another",
        "tests/unit/storage/test_schema.py",
    ),
    Fault(
        "passwords hashed where events are taken",
        "tally/api/auth.py",
        "            return await asyncio.get_running_loop().run_in_executor(self._thread, do, *what)",
        "            return do(*what)",
        "tests/robustness/test_concurrency.py",
    ),
    Fault(
        "a hash's memory kept for the next one",
        "tally/cli/serve.py",
        '    ("MALLOC_MMAP_THRESHOLD_", -3, 131_072),\n    ("MALLOC_TRIM_THRESHOLD_", -1, 8 * 1_048_576),\n',
        "",
        "tests/robustness/test_concurrency.py",
    ),
    Fault(
        "links use the connections of accounts",
        "tally/storage/connections.py",
        "of = self.links if claim.is_link else self.accounts",
        "of = self.accounts",
        "tests/api/test_share_link_load.py",
    ),
    Fault(
        "one key is served until it has no more",
        "tally/storage/fair_queue.py",
        "popitem(last=False)",
        "popitem(last=True)",
        "tests/unit/http/test_fair_queue.py tests/api/test_share_link_load.py",
    ),
    Fault(
        "a question joins another of an older state",
        "tally/api/endpoints.py",
        "api.link_answers.do(key,",
        "api.link_answers.do(repr(params.identity(asked.parameters)),",
        "tests/api/test_share_link_load.py",
    ),
    Fault(
        "a snapshot that is left behind",
        "tally/storage/connections.py",
        "            return question(connection)\n",
        "            answer = question(connection)\n"
        "        connection.execute('begin')\n        connection.execute('select 1 from meta').fetchone()\n"
        "        self._left = connection.execute('select 1 from label')\n        return answer\n",
        "tests/robustness/test_concurrency.py",
    ),
    Fault(
        "filters joined by or",
        "tally/storage/sql/events.py",
        'sql += f" and {column} in (select id',
        'sql += f" or {column} in (select id',
        "tests/api/test_read_api.py",
    ),
    Fault(
        "a day of 24 hours on a clock change",
        "tally/timeranges.py",
        "yield max(span.start_ms, day * DAY_MS - span.offset_ms), span.offset_ms",
        "yield day * DAY_MS - spans[0].offset_ms, span.offset_ms",
        "tests/unit/test_timeranges.py",
    ),
    Fault(
        "hours counted as firsts",
        "tally/storage/sql/events.py",
        "% 4 = 0, hour_visitors,",
        "% 4 = 0, first_seen,",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a suffix from firsts",
        "tally/storage/sql/events.py",
        "sum(iif(quarter < ?, last_seen, first_seen))",
        "sum(iif(quarter < ?, first_seen, first_seen))",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a ragged end whose margin stays",
        "tally/reports/stats.py",
        "for margin in ((first * QUARTER_MS, from_ms), (to_ms, end * QUARTER_MS)):",
        "for margin in ((first * QUARTER_MS, from_ms),):",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "visitors who came too late",
        "tally/reports/stats.py",
        " - _too_late(coverage, to_ms))",
        ")",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a part of a day as its prefix",
        "tally/reports/stats.py",
        "    if to_ms < midnight_ms:\n",
        "    if False:\n",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a late event that is not folded",
        "tally/ingest/writer.py",
        "if row[1] < now.rolled_up_to_ms]",
        "if row[1] < 0]",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a stale mark that forgets the blocks above",
        "tally/rollups/rollup_state.py",
        "delete from rollup_state where website = ? and level = ? and block = ?",
        "delete from rollup_state where website = ? and level = ? and block = ? and 0",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a fold that says it went a millisecond further",
        "tally/rollups/field_values.py",
        "(end_ms, website, day),",
        "(end_ms + 1, website, day),",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a fold that goes a millisecond further than it says",
        "tally/rollups/field_values.py",
        "(website, from_ms, end_ms),\n    )\n    _add_new_events",
        "(website, from_ms, end_ms + 1),\n    )\n    _add_new_events",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a version that a late event leaves as it is",
        "tally/rollups/field_values.py",
        "/* field_values.changed */ update rollup_state set version = version + 1",
        "/* field_values.changed */ update rollup_state set version = version",
        "tests/unit/reports/test_stats.py",
    ),
    Fault(
        "a version that a stale mark leaves as it is",
        "tally/rollups/rollup_state.py",
        "rolled_up_to_ms = excluded.rolled_up_to_ms, version = version + 1",
        "rolled_up_to_ms = excluded.rolled_up_to_ms, version = version",
        "tests/unit/reports/test_stats.py tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "counted twice: what arrives while a day is counted",
        "tally/maintenance/rollup_builder.py",
        "    totals.clear(connection, website, day)\n",
        "",
        "tests/unit/maintenance/test_background.py",
    ),
    Fault(
        "a block over a day that is not final",
        "tally/rollups/rollup_state.py",
        "    if lowest is None or lowest < FINAL:\n        return False\n",
        "",
        "tests/unit/maintenance/test_background.py",
    ),
    Fault(
        "a block of very many pages of which only a part is counted",
        "tally/rollups/visit_pages.py",
        "return [(part, parts) for part in range(parts)]",
        "return [(0, parts)]",
        "tests/unit/maintenance/test_background.py::test_very_many_pages_are_counted_in_parts",
    ),
    Fault(
        "pages of a block that an import changed while they were counted",
        "tally/rollups/visit_pages.py",
        "is_right = before is not None and version(connection, *place) == before",
        "is_right = before is not None",
        "tests/unit/reports/test_stats.py",
    ),
    Fault(
        "values of a killed building stay",
        "tally/maintenance/rollup_builder.py",
        "        while await self._write(field_values.delete_values, website, level, block):\n            pass\n",
        "",
        "tests/unit/maintenance/test_background.py",
    ),
    Fault(
        "a visit that stays in the quarter it began in",
        "tally/rollups/totals.py",
        "            _count_visit(totals, old, -1)\n",
        "            pass\n",
        "tests/unit/rollups/test_totals.py",
    ),
    Fault(
        "an hour that reaches over midnight",
        "tally/rollups/totals.py",
        "for hour in range(max(0, place - 3), place + 1):",
        "for hour in range(place - 2, place + 1):",
        "tests/unit/rollups/test_totals.py",
    ),
    Fault(
        "a filter that covers half of a day",
        "tally/reports/coverage.py",
        "if found.get(day, 0) == folded.get(day, 0)}",
        "if found.get(day, 0)}",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a visitor's first event for the last",
        "tally/reports/partial_days.py",
        "        marks[place] |= _LAST\n",
        "        marks[place] |= _FIRST\n",
        "tests/unit/reports/test_partial_days.py tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "the longer part of a day with the visitors of the shorter one",
        "tally/reports/partial_days.py",
        "map(sub, figures, counted.get(number, none))",
        "map(sub, figures, (0, *counted.get(number, none)[1:]))",
        "tests/unit/reports/test_partial_days.py",
    ),
    Fault(
        "filtered figures remembered without the version of their day",
        "tally/reports/stats.py",
        'key = ("stats", coverage.website, span[0], final and final.version, scope.filters)',
        'key = ("stats", coverage.website, span[0], scope.filters)',
        "tests/unit/rollups/test_rollups.py tests/unit/reports/test_stats.py",
    ),
    Fault(
        "the part of today that is not folded left out",
        "tally/reports/top.py",
        "return [coverage.rows(folded), coverage.rows(rest)]",
        "return [coverage.rows(folded)]",
        "tests/unit/rollups/test_rollups.py",
    ),
    Fault(
        "a page of another site may change things",
        "tally/api/auth.py",
        "        is_ours = site in _OWN_PAGES if site is not None else self._is_own_origin(request)",
        "        is_ours = site is not None or self._is_own_origin(request)",
        "tests/api/test_login.py",
    ),
    Fault(
        "a session that is not renewed at login",
        "tally/api/auth.py",
        "        now_ms, value = self.clock.monotonic_wall_ms(), logins.new_value()",
        "        now_ms, value = self.clock.monotonic_wall_ms(), request.cookies.get('tally') or logins.new_value()",
        "tests/api/test_login.py",
    ),
    Fault(
        "the plain cookie over https",
        "tally/api/auth.py",
        'return f"__Secure-{own}" if prefix else f"__Host-{own}"',
        "return own",
        "tests/api/test_login.py",
    ),
    Fault(
        "no work for an address that nobody has",
        "tally/api/account.py",
        "    password_hash = await _checked(auth, attempt, 0 if owner is None else owner.number, password)",
        "    password_hash = None if owner is None else await _checked(auth, attempt, owner.number, password)",
        "tests/api/test_login.py",
    ),
    Fault(
        "tries counted after the work",
        "tally/accounts/sign_in.py",
        "        for buckets, key in counts:\n            buckets.take(key, now_ns)\n\n        def",
        "        import asyncio\n\n        asyncio.get_running_loop().call_later(\n            0.01,"
        " lambda: [buckets.take(key, now_ns) for buckets, key in counts]\n        )\n\n        def",
        "tests/api/test_login_throttling.py::test_tries_at_the_same_moment_all_count",
    ),
    Fault(
        "a known browser has no tries of its own",
        "tally/api/auth.py",
        "browser = None if owner is None else self._known_browser(request, owner.number)",
        "browser = None",
        "tests/api/test_login_throttling.py::test_a_device_cookie_is_never_refused_for_what_others_try",
    ),
    Fault(
        "counts of sign-ins outlive another password",
        "tally/accounts/sign_in.py",
        ' + b"\\0" + password_version',
        "",
        "tests/api/test_login_throttling.py::test_a_new_password_starts_the_counts_of_an_account_anew",
    ),
    Fault(
        "a device of another account vouches",
        "tally/api/auth.py",
        "self.store.registry.devices[device].account == account else None",
        "account else None",
        "tests/api/test_login_throttling.py::test_what_vouches_for_no_browser",
    ),
    Fault(
        "a try that a full queue refuses is counted",
        "tally/api/account.py",
        "    except BaseException:\n        attempt.give_back()\n        raise\n",
        "    except BaseException:\n        raise\n",
        "tests/api/test_login_throttling.py::test_a_crowd_is_told_to_come_back_and_loses_no_try",
    ),
    Fault(
        "device cookies outlive another password",
        "tally/accounts/logins.py",
        '"/* logins.forget_devices_of */ delete from device_cookie where account = ?"',
        '"/* logins.forget_devices_of */ delete from device_cookie where account = ? and 0"',
        "tests/api/test_login_throttling.py::test_what_vouches_for_no_browser",
    ),
    Fault(
        "another account's website",
        "tally/api/context.py",
        "        if website is None or website.account != account:",
        "        if website is None:",
        "tests/api/test_authorization.py",
    ),
    Fault(
        "another account's key revoked",
        "tally/api/account.py",
        "in auth.store.registry.keys.values() if key.account == session.owner.number}",
        "in auth.store.registry.keys.values() if session}",
        "tests/api/test_account_api.py",
    ),
    Fault(
        "event_data by a shared link",
        "tally/api/events.py",
        "    if is_shared:\n        return traffic\n",
        "    if is_shared:\n        return (*traffic, event.event_data)\n",
        "tests/api/test_account_api.py",
    ),
    Fault(
        "measurements by a shared link",
        "tally/api/events.py",
        "own.limit + 1, is_shared, asked",
        "own.limit + 1, False, asked",
        "tests/api/test_account_api.py",
    ),
    Fault(
        "a Link header of another client's request",
        "tally/api/endpoints.py",
        'f"{etag} {asked.prefix}{asked.url}" if asked.csv else etag',
        "etag",
        "tests/api/test_share_link_load.py::test_a_shared_answer_holds_nothing_of_another_request",
    ),
    Fault(
        "a filter by a shared link confirms measurements",
        "tally/api/endpoints.py",
        "TRAFFIC_TYPES if view.is_shared else TYPES",
        "TYPES",
        "tests/api/test_account_api.py",
    ),
    Fault(
        "deleted rows that are not overwritten",
        "tally/maintenance/deletion.py",
        'connection.execute("pragma secure_delete = 1")',
        'connection.execute("pragma secure_delete = 0")',
        "tests/unit/maintenance/test_deletion.py",
    ),
    Fault(
        "a table that deletion forgets",
        "tally/maintenance/deletion.py",
        '    ("event_id", ("digest",)),\n',
        "",
        "tests/unit/maintenance/test_deletion.py",
    ),
    Fault(
        "a text swept that was used meanwhile",
        "tally/maintenance/deletion.py",
        "[label for label in some if label not in labels.watched]",
        "some",
        "tests/unit/maintenance/test_deletion.py",
    ),
    Fault(
        "texts swept beside an import",
        "tally/maintenance/deletion.py",
        "    if _data_version(connection) != version:\n        return False\n",
        "",
        "tests/unit/maintenance/test_deletion.py",
    ),
    Fault(
        "a deleted website's number given out again",
        "tally/accounts/websites.py",
        '        " (select coalesce(max(website), 0) from deleted_website)), ?, ?, ?, ?, ?) returning number",',
        '        " 0), ?, ?, ?, ?, ?) returning number",',
        "tests/unit/maintenance/test_deletion.py",
    ),
    Fault(
        "no nosniff on answers",
        "tally/http/responses.py",
        '    "X-Content-Type-Options": "nosniff",\n',
        "",
        "tests/api/test_response_headers.py",
    ),
    Fault(
        "styles from anywhere in a picture",
        "tally/web/pages.py",
        "frame-ancestors 'none'; sandbox",
        "style-src 'unsafe-inline'; sandbox",
        "tests/api/test_response_headers.py",
    ),
    Fault(
        "refusals of assets without their policy",
        "tally/web/pages.py",
        "    request[RESPONSE_HEADERS] = FILE_HEADERS\n"
        '    found = request.app[FILES].get(request.match_info["path"])\n',
        '    found = request.app[FILES].get(request.match_info["path"])\n    request[RESPONSE_HEADERS] = FILE_HEADERS\n'
        "    if found is None:\n        del request[RESPONSE_HEADERS]\n",
        "tests/api/test_response_headers.py",
    ),
    Fault(
        "what is no HTTP answered in aiohttp's words",
        "tally/ingest/fast_path.py",
        "        aiohttps.__class__ = HttpProtocol\n",
        "",
        "tests/api/test_response_headers.py",
    ),
    Fault(
        "a route that no table knows",
        "analytics_server.py",
        "    return app\n",
        '    app.router.add_get("/debug", status.metrics)\n    return app\n',
        "tests/api/test_response_headers.py tests/api/test_authorization.py",
    ),
    Fault(
        "a backup that nobody has checked",
        "tally/maintenance/backup.py",
        '        check(path, path, "the database or the disk is damaged", is_cancelled)\n',
        "",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "a backup looked at in passing",
        "tally/maintenance/backup.py",
        "pragma integrity_check(1)",
        "pragma quick_check(1)",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "a backup that begins anew with each commit",
        "tally/maintenance/backup.py",
        '        reader.execute("begin")\n        try:\n            reader.execute(',
        '        reader.execute("begin")\n        try:\n            "".join(',
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "another database's backup deleted",
        "tally/maintenance/backup.py",
        "if _salt(path) == salt]",
        "if salt]",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "a backup swept while it is made",
        "tally/maintenance/backup.py",
        "            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "a backup that overwrites",
        "tally/maintenance/backup.py",
        "        os.link(path, target)\n",
        "        os.replace(path, target)\n",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "the old log beside the restored database",
        "tally/maintenance/restore.py",
        '            os.rename(log, kept.with_name(kept.name + "-wal"))\n    log.unlink(missing_ok=True)\n',
        "            pass\n",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "restored beside a running server",
        "tally/cli/database.py",
        "    lock = lock_file(settings.db)\n    try:\n        kept",
        '    lock = os.open(".", 0)\n    try:\n        kept',
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "restored into what another program has open",
        "tally/maintenance/restore.py",
        '        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):',
        "        if not name:",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "what was left out forgotten at each commit",
        "tally/ingest/rejected_events.py",
        " on conflict do update set events = events + excluded.events",
        " on conflict do update set events = excluded.events",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "requests refused whole that nobody counts",
        "tally/ingest/collector.py",
        "        if isinstance(error, Refusal):\n",
        "        if isinstance(error, Refusal) and error.kind is errors.NO_VALID_EVENT:\n",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "what the writer refuses of the short way counted nowhere",
        "tally/ingest/fast_path.py",
        "        self._collector.count_refusal(error)\n",
        "",
        "tests/unit/ingest/test_fast_path.py",
    ),
    Fault(
        "what was left out of a website that is gone",
        "tally/ingest/rejected_events.py",
        'select ?1, ?2, ?3, ?4"\n        " where exists (select 1 from website where number = ?1)"',
        'select ?1, ?2, ?3, ?4"\n        " where ?1 = ?1"',
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "counts lost where they could not be written",
        "tally/ingest/rejected_events.py",
        "                    self._take_back(pending)\n",
        "",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "counts written twice at the end",
        "tally/ingest/rejected_events.py",
        "await asyncio.shield(asyncio.ensure_future(self._write(writer)))",
        "await self._write(writer)",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "a refused page's address told",
        "tally/ingest/rejected_events.py",
        'return "ip-address"',
        "return host",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "more examples than are kept",
        "tally/ingest/rejected_events.py",
        "order by id desc limit 1 offset ?3)",
        "order by id desc limit 1 offset ?3 + 90)",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "days of UTC told as local ones",
        "tally/timeranges.py",
        "    from_ms, to_ms = _day_start_ms(first, tz), _day_start_ms(last + timedelta(days=1), tz)\n",
        '    from_ms = _day_start_ms(first, zone("UTC"))\n'
        '    to_ms = _day_start_ms(last + timedelta(days=1), zone("UTC"))\n',
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "what was left out forgotten by a clock that jumped",
        "tally/ingest/rejected_events.py",
        "forget_old, self._clock.deletion_time_ms())",
        "forget_old, self._clock.wall_ms())",
        "tests/api/test_rejected_events.py",
    ),
    Fault(
        "web vitals without any metric counted as an event",
        "tally/rollups/web_vitals.py",
        "        if not any(value is not None for value in row[-len(METRICS) :]):\n",
        "        if False:\n",
        "tests/api/test_minimal_client.py",
    ),
    Fault(
        "a page of a web view from any origin",
        "tally/events/validation.py",
        "if (url is not None and url.origin and url.origin not in origins) or (",
        "if (",
        "tests/api/test_minimal_client.py",
    ),
    Fault(
        "a commit each round for a day without new events",
        "tally/rollups/field_values.py",
        "        if first is None:\n            return from_ms\n",
        "",
        "tests/unit/maintenance/test_scheduler.py::test_what_is_done_is_written_once",
    ),
    Fault(
        "a failing turn that ends the round",
        "tally/maintenance/scheduler.py",
        "if self._failed is None or lies_in_the_file(failure):",
        "if True:",
        "tests/unit/maintenance/test_scheduler.py::test_a_turn_that_fails_holds_up_nothing",
    ),
    Fault(
        "counts of rejected events written as long as more arrive",
        "tally/ingest/rejected_events.py",
        "for _ in range(-(-len(self._counts) // MOST_A_STEP)):",
        "while self._counts:",
        "tests/unit/maintenance/test_scheduler.py::test_a_flood_of_rejected_events_holds_up_no_other_chore",
    ),
    Fault(
        "retention that believes the wall clock",
        "tally/maintenance/rollup_builder.py",
        "now = Now(self._clock.wall_ms(), self._clock.deletion_time_ms())",
        "now = Now(self._clock.wall_ms(), self._clock.wall_ms())",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "event_ids forgotten by the wall clock",
        "tally/ingest/writer.py",
        "forget_old(connection, self.clock.deletion_time_ms())",
        "forget_old(connection, self.clock.wall_ms())",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "ids that are held counted as given out",
        "tally/ingest/store.py",
        "            return False\n        await self.refresh()\n        return True",
        "            return False\n        self.last_id = ids_end - 1\n        return True",
        "tests/unit/transfer/test_transfer.py::test_pages_of_events_stand_still_beside_imports",
    ),
    Fault(
        "assignments in order of arrival",
        "tally/rollups/experiments.py",
        "if old is not None and old <= new:",
        "if old is not None:",
        "tests/unit/rollups/test_experiments.py",
    ),
    Fault(
        "an import without keys",
        "tally/transfer/import_writer.py",
        "[(website, *key) for key in sorted(self._key_rows)]",
        "[]",
        "tests/unit/transfer/test_transfer.py::test_a_second_import_changes_nothing",
    ),
    Fault(
        "an export taken for another's by its ids alone",
        "tally/transfer/import_writer.py",
        "known.update((row[0], sent[row]) for row in rows if row in sent)",
        "known.update((row[0], key) for row in rows for one, key in sent.items() if one[:2] == row[:2])",
        "tests/unit/transfer/test_transfer.py::test_ids_of_a_file_are_no_ids_of_ours",
    ),
    Fault(
        "an import of bad lines alone that succeeds",
        "tally/cli/transfer.py",
        "if summary.bad == sum(summary) > 0:",
        "if summary.bad < 0:",
        "tests/unit/transfer/test_transfer.py::test_an_import_of_bad_lines_alone_fails",
    ),
    Fault(
        "copies found by event_id alone",
        "tally/ingest/writer.py",
        "blake2b(content.encode(), digest_size=16",
        "blake2b(event.event_id.encode(), digest_size=16",
        "tests/api/test_collect.py",
    ),
    Fault(
        "measurements without content",
        "tally/ingest/writer.py",
        "        if event.type not in TRAFFIC:\n            content +=",
        "        if False:\n            content +=",
        "tests/api/test_collect.py",
    ),
    Fault(
        "a copy that does not renew its event_id",
        "tally/ingest/writer.py",
        "            self._renewed[key] = self._steady_ms\n            return DUPLICATE",
        "            return DUPLICATE",
        "tests/api/test_collect.py",
    ),
    Fault(
        "a duplicate judged by the wall clock",
        "tally/ingest/writer.py",
        "writer.clock.deletion_time_ms() - OLDEST_MS",
        "writer.clock.wall_ms() - OLDEST_MS",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "visitors forgotten by the wall clock",
        "tally/ingest/writer.py",
        "        self.sessions.keep(self.clock.deletion_time_ms())\n        self.labels.keep()",
        "        self.sessions.keep(self.clock.wall_ms())\n        self.labels.keep()",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "salts forgotten by the wall clock",
        "tally/web/components.py",
        "salts.expire(clock.deletion_time_ms())",
        "salts.expire(clock.wall_ms())",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "logins that end by the wall clock",
        "tally/api/auth.py",
        "login.ends_ms <= self.clock.monotonic_wall_ms()",
        "login.ends_ms <= self.clock.wall_ms()",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "a start that believes its clock",
        "tally/clock.py",
        "        elif was_unconfirmed or off_ms > MAX_TRUSTED_STOP_MS:",
        "        elif was_unconfirmed:",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "a jump that is believed at the next look",
        "tally/clock.py",
        "        elif monotonic_ms - self._measured_since_ms >= CONFIRMED_AFTER_MS:",
        "        elif monotonic_ms - self._measured_since_ms >= 0:",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "kept events refused by a wrong clock",
        "tally/events/validation.py",
        "if ts_ms < early_ms - OLDEST_MS:",
        "if ts_ms < now_ms - OLDEST_MS:",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "zones of the host",
        "tally/timeranges.py",
        "return ZoneInfo.from_file(source, key=name)",
        "return ZoneInfo(name)",
        "tests/robustness/test_clock_changes.py",
    ),
    Fault(
        "an address that breaks a line",
        "tally/settings.py",
        "if value and not _BASE_URL.fullmatch(value):",
        "if value and not _BASE_URL.match(value):",
        "tests/robustness/test_injection.py",
    ),
    Fault(
        "a secret compared byte by byte",
        "tally/api/account.py",
        'is_right = secrets.compare_digest(token.encode("utf-8", "surrogatepass"), auth.setup_token.encode())',
        "is_right = token == auth.setup_token",
        "tests/robustness/test_injection.py",
    ),
    Fault(
        "a database that others may read",
        "tally/storage/database.py",
        "os.O_CREAT | os.O_RDWR, 0o600)",
        "os.O_CREAT | os.O_RDWR, 0o644)",
        "tests/robustness/test_injection.py",
    ),
    Fault(
        "a core file of what is in memory alone",
        "tally/cli/serve.py",
        "    _leave_no_core()\n    starting",
        "    starting",
        "tests/robustness/test_injection.py",
    ),
    Fault(
        "another machine asked",
        "tally/cli/serve.py",
        "    _leave_no_core()\n    starting",
        "    _leave_no_core()\n    with __import__('socket').socket(2, 2) as other:\n"
        "        other.connect(('127.0.0.1', 9))\n    starting",
        "tests/robustness/test_injection.py",
    ),
    Fault(
        "a formula of full width",
        "tally/http/formats.py",
        "@\\uff1d",
        "@",
        "tests/unit/http/test_formats.py",
    ),
    Fault(
        "a formula behind a quote inside a cell",
        "tally/http/formats.py",
        '["\\t\\r\\n]*)(?=',
        ")(?=",
        "tests/unit/http/test_formats.py",
    ),
    Fault(
        "a host that ends like ours",
        "tally/events/urls.py",
        'host.endswith("." + domain)',
        "host.endswith(domain)",
        "tests/fuzz/test_corpus.py",
    ),
    Fault(
        "two lengths taken the short way",
        "tally/ingest/fast_path.py",
        "        len(fields) < len(head)\n        or ",
        "        ",
        "tests/fuzz/test_corpus.py",
    ),
    Fault(
        "a label out of a request",
        "tally/http/middleware.py",
        "[route if route.resource else None, response.status // 100]",
        "[route if route.resource else request.path, response.status // 100]",
        "tests/api/test_metrics.py",
    ),
    Fault(
        "the short way not counted",
        "tally/ingest/fast_path.py",
        "            self._factory.answered[_ACCEPTED] += 1\n",
        "",
        "tests/api/test_metrics.py",
    ),
    Fault(
        "a bucket that leaves its bound out",
        "tally/latency_histogram.py",
        "self.counts[bisect_left(",
        "self.counts[__import__('bisect').bisect_right(",
        "tests/api/test_metrics.py",
    ),
    Fault(
        "a library's words in the log",
        "tally/http/logging.py",
        'values["msg"] = "logged by a library"',
        'values["msg"] = record.getMessage()',
        "tests/unit/http/test_logging.py",
    ),
    Fault(
        "what asyncio quotes in the log",
        "tally/http/logging.py",
        "(known for known in _LOOP_MESSAGES if",
        "(message for known in _LOOP_MESSAGES if",
        "tests/unit/http/test_logging.py",
    ),
    Fault(
        "a loop that nobody listens to",
        "tally/cli/serve.py",
        "    asyncio.get_running_loop().set_exception_handler(logs.log_loop_failure)\n",
        "",
        "tests/unit/http/test_logging.py",
    ),
    Fault(
        "a line that a sender breaks in two",
        "tally/http/logging.py",
        "return value if _PLAIN.fullmatch(value) else json.dumps(value)",
        "return value if _PLAIN.fullmatch(value) else '\"' + value + '\"'",
        "tests/unit/http/test_logging.py",
    ),
    Fault(
        "a failing log that shows its values",
        "tally/http/logging.py",
        "    logging.raiseExceptions = False\n",
        "",
        "tests/unit/http/test_logging.py",
    ),
    Fault(
        "a head that may take for ever",
        "tally/http/connections.py",
        "            self.deadline_s = self._loop.time() + HEAD_S",
        "            self.deadline_s = math.inf",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "an idle connection that stays",
        "tally/http/connections.py",
        "self.idle_since_s + self._connections.idle_s",
        "math.inf",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "a deadline for one who waits for his commit",
        "tally/http/connections.py",
        "        self.deadline_s = math.inf\n        self.pipelined",
        "        self.pipelined",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "an answer that nobody needs to read",
        "tally/http/connections.py",
        "now_s - one.stalled_since_s >= STALLED_S or ",
        "",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "an answer read for ever",
        "tally/http/connections.py",
        " or now_s - one.unread_since_s >= RESPONSE_S",
        "",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "unread answers without a bound",
        "tally/http/connections.py",
        "while self.unread_bytes > MAX_UNREAD_BYTES and",
        "while False and",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "heads without a bound",
        "tally/http/connections.py",
        "if self._connections.heads_bytes > MAX_HEADS_BYTES:",
        "if False:",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "requests sent ahead that weigh nothing",
        "tally/http/connections.py",
        " + PIPELINED_BYTES * min(max(heads - 1, 0), MAX_PIPELINED)",
        "",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "heads counted of those who are gone",
        "tally/http/connections.py",
        "        one.release_heads()\n        self.release_unread(one)",
        "        self.release_unread(one)",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "a proxy that is one client",
        "tally/http/connections.py",
        "None if peer is None or is_proxy(peer, trusted) else ",
        "",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "the youngest idle connection goes",
        "tally/http/connections.py",
        "self.unread_bytes > 0, self.idle_since_s",
        "self.unread_bytes > 0, -self.idle_since_s",
        "tests/robustness/test_hostile_clients.py::test_at_the_bound_the_longest_idle_go",
    ),
    Fault(
        "room made by those who are asking",
        "tally/http/connections.py",
        "[one for one in among if not one.is_active and ",
        "[one for one in among if ",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "an answer lost to make room",
        "tally/http/connections.py",
        " and not (one.has_requested and one.idle_since_s > latest_s)]",
        "]",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "connections without a bound",
        "tally/http/connections.py",
        "len(self.all) + self.accepting >= self.limit and not self.make_room()",
        "False",
        "tests/robustness/test_hostile_clients.py::test_256_file_descriptors",
    ),
    Fault(
        "a soft limit on files that stays",
        "tally/http/listener.py",
        "            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))",
        "            pass",
        "tests/robustness/test_hostile_clients.py::test_the_soft_limit_is_raised",
    ),
    Fault(
        "slow bodies that keep others out",
        "tally/http/body.py",
        "            oldest.reschedule(asyncio.get_running_loop().time())\n",
        "",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "overload told after the body",
        "tally/ingest/collector.py",
        "    collector.check_capacity()\n",
        "",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "overload told the long way",
        "tally/ingest/fast_path.py",
        "if collector.ingest.is_full:",
        "if False:",
        "tests/unit/http/test_connections.py",
    ),
    Fault(
        "everybody's lines kept",
        "tally/ingest/fast_path.py",
        "if field[0] in _KEPT and len(line)",
        "if len(line)",
        "tests/unit/ingest/test_fast_path.py",
    ),
    Fault(
        "a connection that stays open after CONNECT",
        "tally/http/connection_reuse.py",
        "        if is_ending() or not is_reusable(request):",
        "        if is_ending() or request.version != HttpVersion11:",
        "tests/robustness/test_request_smuggling.py",
    ),
    Fault(
        "a connection that stays open after chunks",
        "tally/http/connection_reuse.py",
        'UNCERTAIN = ("Transfer-Encoding", "Upgrade", "Expect")',
        'UNCERTAIN = ("Upgrade", "Expect")',
        "tests/robustness/test_request_smuggling.py",
    ),
    Fault(
        "a live server's socket that is taken for a stale one",
        "tally/http/sockets.py",
        "        except ConnectionRefusedError:",
        "        except OSError:",
        "tests/unit/http/test_listener.py",
    ),
    Fault(
        "a server that ends before the requests of new connections arrive",
        "tally/web/runner.py",
        "while self.app[ACTIVE_REQUESTS] or self.app[CONNECTIONS].has_new():",
        "while self.app[ACTIVE_REQUESTS]:",
        "tests/unit/http/test_listener.py",
    ),
    Fault(
        "metrics for a proxy that sends HTTP/1.0",
        "tally/web/status.py",
        "if request.version != HttpVersion11 or not",
        "if not",
        "tests/api/test_read_errors.py",
    ),
    Fault(
        "two lengths on the short way",
        "tally/ingest/fast_path.py",
        "        len(fields) < len(head)\n        or not _ASKS",
        "        not _ASKS",
        "tests/robustness/test_request_smuggling.py tests/unit/ingest/test_fast_path.py",
    ),
    Fault(
        "a damaged database that is called sound",
        "tally/maintenance/doctor_database.py",
        'if wrong == ["ok"] else',
        "if wrong else",
        "tests/unit/cli/test_doctor.py",
    ),
    Fault(
        "faults that do not show in the exit status",
        "tally/cli/doctor.py",
        "    if faults:\n        raise Failure",
        "    if faults > 99:\n        raise Failure",
        "tests/unit/cli/test_doctor.py",
    ),
    Fault(
        "a disk that is never too small",
        "tally/maintenance/doctor_checks.py",
        "    elif free < MIN_FREE_BYTES:",
        "    elif free < 0:",
        "tests/unit/cli/test_doctor.py",
    ),
    Fault(
        "metrics behind a proxy that adds no header",
        "tally/events/sender.py",
        "                self.has_hidden_proxy = True\n",
        "",
        "tests/api/test_read_errors.py::test_metrics_and_a_proxy_that_adds_no_header",
    ),
    Fault(
        "events that show a hidden proxy to nobody",
        "tally/ingest/fast_path.py",
        '            resolver.check_event(client, page, field("host"))',
        "            pass",
        "tests/unit/cli/test_doctor.py::test_an_nginx_that_adds_no_header",
    ),
    Fault(
        "a proxy that nobody notes",
        "tally/events/sender.py",
        "            self.networks.add(str(proxy))",
        "            pass",
        "tests/unit/cli/test_doctor.py",
    ),
    Fault(
        "a backup that fills the database's disk",
        "tally/maintenance/backup.py",
        "    require_free_space(source, target.resolve().parent)\n",
        "",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "a night whose backup is made again and again",
        "tally/maintenance/scheduled_backup.py",
        "            if self.last_ms < self._due_ms(now_ms):\n",
        "            if now_ms:\n",
        "tests/unit/maintenance/test_backup.py",
    ),
    Fault(
        "a late web vital under a block that is built",
        "tally/rollups/web_vitals.py",
        "                _take_down(connection, website, above, day >> above)",
        "                pass",
        "tests/unit/rollups/test_web_vitals.py",
    ),
    Fault(
        "a late web vital of a block whose sums are remembered",
        "tally/rollups/web_vitals.py",
        "(*tile, events.get(tile, 0))",
        "(*tile, 0)",
        "tests/unit/rollups/test_web_vitals.py",
    ),
    Fault(
        "a second value in a cell of web vitals",
        "tally/rollups/vitals_histogram.py",
        "            del ones[once]\n            count += 1\n",
        "            del ones[once]\n",
        "tests/unit/rollups/test_web_vitals.py",
    ),
    Fault(
        "mended histograms told from memory",
        "tally/rollups/web_vitals.py",
        "do update set value = value + 1",
        "do update set value = value",
        "tests/unit/rollups/test_web_vitals.py",
    ),
    Fault(
        "a threshold that is poor already",
        "tally/rollups/vitals_histogram.py",
        "slot != EVENTS and cell > _RATED[metric][1]",
        "slot != EVENTS and cell >= _RATED[metric][1]",
        "tests/unit/rollups/test_web_vitals.py",
    ),
    Fault(
        "heatmap points that count once a cell",
        "tally/rollups/heatmaps.py",
        "[2 * width + kind] += points",
        "[2 * width + kind] += 1",
        "tests/api/test_heatmaps.py",
    ),
    Fault(
        "a heatmap with the day after its range",
        "tally/rollups/heatmaps.py",
        "if end > high else end",
        "if end >= high else end",
        "tests/api/test_heatmaps.py",
    ),
    Fault(
        "a list that forgets the first of those that tie",
        "tally/reports/ranking.py",
        "tied, some = nsmallest(room, chain(tied, _named(connection, some)), key=itemgetter(1)), []",
        "tied, some = nsmallest(room, _named(connection, some), key=itemgetter(1)), []",
        "tests/unit/reports/test_stats.py",
    ),
    Fault(
        "of very many labels some are told twice",
        "tally/reports/ranking.py",
        "        if self._put_by:\n            self._put_all_by()\n        for part",
        "        for part",
        "tests/unit/reports/test_stats.py",
    ),
    Fault(
        "very many labels are all held",
        "tally/reports/ranking.py",
        "            if len(self._held) > MAX_HELD:\n                self._put_all_by()\n",
        "",
        "tests/unit/reports/test_stats.py",
    ),
    Fault(
        "what is put by is never added up",
        "tally/reports/ranking.py",
        "        if sum(map(len, self._put_by)) > self._most_numbers:\n",
        "        if False:\n",
        "tests/unit/reports/test_stats.py",
    ),
    Fault(
        "a log that was emptied may grow for ten seconds",
        "tally/ingest/store.py",
        "self.deletion_worker.wants_empty_log, self._empty_again_ns = False, now_ns",
        "self.deletion_worker.wants_empty_log = False",
        "tests/unit/ingest/test_store.py",
    ),
    Fault(
        "a list of heatmaps with pages that have none",
        "tally/rollups/heatmaps.py",
        "samples + clicks >= max(1, coalesce((select points from least), 1))",
        "samples + clicks >= coalesce((select points from least), 0)",
        "tests/api/test_heatmaps.py",
    ),
    Fault(
        "a step that packs heatmaps for as long as it likes",
        "tally/rollups/heatmaps.py",
        "        if time.perf_counter() > end_s:\n            break\n",
        "",
        "tests/api/test_heatmaps.py",
    ),
    Fault(
        "a heatmap that is added up past its deadline",
        "tally/rollups/heatmaps.py",
        "                _let_the_deadline_look(connection)\n",
        "",
        "tests/api/test_heatmaps.py",
    ),
    Fault(
        "a conversion counted twice",
        "tally/rollups/experiments.py",
        "variant_of(connection, key) if new else 0",
        "variant_of(connection, key)",
        "tests/unit/rollups/test_experiments.py",
    ),
    Fault(
        "a conversion before its assignment",
        "tally/rollups/experiments.py",
        "[(0, 0), *((1, goal) for (goal,) in goals)]",
        "[(0, 0)]",
        "tests/unit/rollups/test_experiments.py",
    ),
    Fault(
        "several variants without a correction",
        "tally/reports/experiments.py",
        "iter(significance.holm([p_value for p_value in p_values if p_value is not None]))",
        "iter([p_value for p_value in p_values if p_value is not None])",
        "tests/unit/rollups/test_experiments.py",
    ),
    Fault(
        "experiments with all the goals that somebody makes up",
        "tally/reports/experiments.py",
        "goals = sorted(_most(converted, MAX_GOALS))",
        "goals = sorted(converted)",
        "tests/unit/rollups/test_experiments.py",
    ),
    Fault(
        "a funnel of a day remembered after a late event",
        "tally/reports/funnels.py",
        'key = ("funnel", coverage.website, span[0], day and day.version,',
        'key = ("funnel", coverage.website, span[0], 0,',
        "tests/unit/reports/test_funnels.py",
    ),
    Fault(
        "a funnel of visits that began before the range",
        "tally/reports/funnels.py",
        "some = bool(scope.filters) or not is_day",
        "some = bool(scope.filters)",
        "tests/unit/reports/test_funnels.py",
    ),
    Fault(
        "a visitor of a value once an event",
        "tally/reports/event_data.py",
        "            if counts[2] != mark:",
        "            if counts[2] != mark or mark:",
        "tests/unit/reports/test_event_data.py",
    ),
    Fault(
        "a property that lost values and is called exact",
        "tally/reports/event_data.py",
        "        return not self.events\n",
        "        return True\n",
        "tests/unit/reports/test_event_data.py::test_one_visitor_with_more_values_than_fit",
    ),
    Fault(
        "dropped numbers missing from their sum",
        "tally/reports/event_data.py",
        "            self.sum += _sum(numbers)\n",
        "            pass\n",
        "tests/unit/reports/test_event_data.py::test_one_visitor_with_more_values_than_fit",
    ),
    Fault(
        "integers compared as doubles",
        "tally/events/json_scalars.py",
        "more = int(number) - int(near) if near != number else 0",
        "more = 0",
        "tests/unit/reports/test_event_data.py",
    ),
    Fault(
        "numbers stored in more digits than were sent",
        "tally/events/json_scalars.py",
        "    if float in map(type, values.values()):\n",
        "    if False:\n",
        "tests/unit/events/test_validation.py",
    ),
    Fault(
        "a copy that writes 1.0 in place of 1 counts again",
        "tally/ingest/writer.py",
        "data = canonical(data).decode()",
        "pass",
        "tests/api/test_collect.py",
    ),
    Fault(
        "a client's share counted after the commit",
        "tally/ingest/collector.py",
        "                self.budgets.take_share(",
        "                (lambda *_: None)(",
        "tests/api/test_budgets.py",
    ),
    Fault(
        "duplicates use up a client's share",
        "tally/ingest/writer.py",
        "            return DUPLICATE\n",
        "            return None\n",
        "tests/api/test_budgets.py",
    ),
    Fault(
        "a sequential test without its price",
        "tally/reports/significance.py",
        "- math.log1p(prior / variance)",
        "",
        "tests/unit/reports/test_significance.py",
    ),
    Fault(
        "a difference for sure that only one look shows",
        "static/experiments/conclusions.js",
        "const isSure = isSmall(one.p_value_any_time, meta);",
        "const isSure = isSmall(one.p_value, meta);",
        "tests/browser/test_experiments_page.py",
    ),
    Fault(
        "variants compared although the split is off",
        "static/experiments/conclusions.js",
        "  if (experiment.split.is_off) {\n",
        "  if (false) {\n",
        "tests/browser/test_experiments_page.py",
    ),
    Fault(
        "a value at the threshold rated worse",
        "static/vitals/web_vitals.js",
        'return value <= good ? "good"',
        'return value < good ? "good"',
        "tests/browser/test_web_vitals_page.py",
    ),
    Fault(
        "a step of a funnel that does not move",
        "static/funnels/steps.js",
        "return [...rest.slice(0, to), steps[from], ...rest.slice(to)];",
        "return [...rest.slice(0, from), steps[from], ...rest.slice(from)];",
        "tests/browser/test_funnels_page.py",
    ),
    Fault(
        "the figures of all events under the name of one",
        "static/events/selected_event.js",
        'filters: [...view.filters, ["event_name", name]]',
        "filters: view.filters",
        "tests/browser/test_events_page.py",
    ),
    Fault(
        "a heatmap's frame that runs scripts",
        "static/heatmaps/heatmap_view.js",
        "sandbox: true,",
        'sandbox: "allow-scripts",',
        "tests/browser/test_heatmaps_page.py",
    ),
    Fault(
        "soft edges that hide a cell's own count",
        "static/heatmaps/heatmap_canvas.js",
        "const left = Math.max(0, 1 - Math.abs((offset + 0.5) / SAMPLES - 0.5));",
        "const left = Math.max(0, 1 - Math.abs((offset + 0.5) / SAMPLES - 0.5) / 2);",
        "tests/browser/test_heatmaps_page.py",
    ),
    Fault(
        "a page that keeps the policy of heatmaps",
        "static/app.js",
        "if (policyOf(found) !== policy) return location.reload();",
        "",
        "tests/browser/test_heatmaps_page.py",
    ),
    Fault(
        "another's heatmaps tell the domain",
        "tally/web/pages.py",
        "website = await request.app[READ_API].website(request, session.owner.number)",
        "website = next(iter(request.app[READ_API].store.registry.websites.values()))",
        "tests/api/test_pages.py",
    ),
    Fault(
        "pages of an allowed origin as referrers",
        "tally/events/urls.py",
        "or (origins and referrer in origin_hosts(origins))",
        "",
        "tests/api/test_own_referrers.py",
    ),
    Fault(
        "an import that does not know the website's own hosts",
        "tally/transfer/importer.py",
        ", *domain_and_origins(connection, website)",
        "",
        "tests/api/test_own_referrers.py",
    ),
    Fault(
        "imported events that are counted once their days are built",
        "tally/rollups/traffic.py",
        "events, left = events + counted - known, left - counted",
        "left = left - counted",
        "tests/api/test_refused_origins.py",
    ),
    Fault(
        "public addresses among refused origins",
        "tally/ingest/refused_origins.py",
        "    return (origin, True) if any(address in network for network in PRIVATE_NETWORKS) else None",
        "    return origin, True",
        "tests/api/test_refused_origins.py",
    ),
    Fault(
        "a prefix that anyone can name",
        "tally/http/request_paths.py",
        "if len(given) != 1 or not request.app[IS_PROXY](request.remote):",
        "if len(given) != 1:",
        "tests/api/test_sub_path.py",
    ),
    Fault(
        "a session below a prefix that is sent to the whole host",
        "tally/api/auth.py",
        'path = public_prefix(request) or "/"',
        'path = "/"',
        "tests/api/test_sub_path.py",
    ),
    Fault(
        "events below a prefix that take the long way",
        "tally/ingest/fast_path.py",
        'f"POST {base_path}{path} HTTP/1.1',
        'f"POST {path} HTTP/1.1',
        "tests/api/test_sub_path.py",
    ),
    Fault(
        "a page in place of an API's error",
        "tally/http/middleware.py",
        "if error.kind is not NOT_FOUND or local_path(request).startswith(API_PATHS):",
        "if error.kind is not NOT_FOUND:",
        "tests/api/test_not_found.py",
    ),
    Fault(
        "a missing key that is called a wrong one",
        "tally/api/read.py",
        "raise ApiError(errors.MISSING_API_KEY, headers=_NO_KEY)",
        "raise ApiError(errors.INVALID_API_KEY, headers=_WRONG_KEY)",
        "tests/api/test_read_errors.py",
    ),
    Fault(
        "what is on its way when a page is left is not stored",
        "static/tracker.js",
        "        store(flight);\n",
        "",
        "tests/browser/test_tracker_leaving.py",
    ),
    Fault(
        "opted out, and what was stored is sent",
        "static/tracker.js",
        "while (!off && (queue[0]",
        "while ((queue[0]",
        "tests/browser/test_tracker_queue.py",
    ),
    Fault(
        "a page of an app has no address",
        "static/tracker.js",
        'location.href.split("#")[0]',
        "location.origin + location.pathname + location.search",
        "tests/browser/test_tracker_wild.py",
    ),
    Fault(
        "a local name shortened that is a property",
        "tally/web/minifier.py",
        'before in (".", "?.") or after == ":"',
        'before in (".", "?.")',
        "tests/unit/web/test_script_compaction.py",
    ),
)


def main() -> int:
    """Plants each fault; the exit status says whether all were noticed."""
    words = [word for word in sys.argv[1:] if word != "--note"]
    is_noting = "--note" in sys.argv[1:]
    if words[:1] == ["--part"]:
        turn, parts_in_all = map(int, words[1].split("/"))
        chosen = list(FAULTS[turn % parts_in_all :: parts_in_all])
    else:
        chosen = [fault for fault in FAULTS if not words or fault.name in words]
    known: dict[str, str] = json.loads(NOTICED.read_text()) if NOTICED.exists() else {}
    noticed = {} if is_noting else known
    for fault in chosen:
        times = (ROOT / fault.file).read_text().count(fault.old)
        if times != 1:
            raise SystemExit(f"{fault.name}: {fault.old!r} stands {times} times in {fault.file}, not once")
    missed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for n in range(AT_ONCE):
            copies.put(copied(Path(folder) / f"copy{n}"))

        def all_pass() -> bool:
            return all(workers.map(lambda part: at_work(copies, lambda copy: passes(copy, part)), parts(chosen, known)))

        # What is noted now is not known before.
        if not is_noting and not all_pass():
            return 1
        found = workers.map(lambda fault: at_work(copies, lambda copy: found_by(copy, fault, noticed)), chosen)
        for fault, test in zip(chosen, found, strict=True):
            missed += test is None
            print(f"{'MISSED' if test is None else 'found '}  {fault.name}", flush=True)
            known |= {fault.name: test} if test else {}
            if is_noting:
                note(known)
        if is_noting and not all_pass():
            return 1
    print(f"{len(chosen) - missed} faults found, {missed} missed")
    return min(missed, 1)


def note(known: dict[str, str]) -> None:
    """Writes down which test noticed which fault, without faults that are planted no more."""
    names = {fault.name for fault in FAULTS}
    NOTICED.write_text(json.dumps({name: known[name] for name in sorted(known) if name in names}, indent=1) + "\n")


def parts(chosen: list[Fault], noticed: dict[str, str]) -> list[list[str]]:
    """What must pass with the code as it is: the tests that noticed, else whole parts; a list for each core."""
    asked = sorted({noticed[fault.name] for fault in chosen if fault.name in noticed})
    asked += sorted({part for fault in chosen if fault.name not in noticed for part in fault.tests.split()})
    # Files together, since they may share what is slow to make.
    return [
        part
        for part in (asked[n * len(asked) // AT_ONCE : (n + 1) * len(asked) // AT_ONCE] for n in range(AT_ONCE))
        if part
    ]


def copied(copy: Path) -> Path:
    """A copy of the code."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", "*.db*")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def at_work(copies: "SimpleQueue[Path]", do: Callable[[Path], Any]) -> Any:
    """Does something with a copy that nobody else uses meanwhile."""
    copy = copies.get()
    try:
        return do(copy)
    finally:
        copies.put(copy)


def found_by(copy: Path, fault: Fault, noticed: dict[str, str]) -> str | None:
    """The test that fails while the fault is in the copy; None where none does."""
    path = copy / fault.file
    text = path.read_text()
    path.write_text(text.replace(fault.old, fault.new))
    try:
        first = [noticed[fault.name]] if fault.name in noticed else fault.tests.split()
        return first_failure(copy, first) or (
            first_failure(copy, fault.tests.split()) if fault.name in noticed else None
        )
    finally:
        path.write_text(text)


def first_failure(copy: Path, tests: list[str]) -> str | None:
    """The first of some tests that fails."""
    done = run(copy, tests)
    # 1: tests ran and some failed. Anything else, such as 2 for code that does not load, is no finding.
    match = (
        re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode == 1
        else None
    )
    return match[1] if match else None


def passes(copy: Path, tests: list[str]) -> bool:
    """Whether some tests pass, those that are no more left out; says so where not."""
    done = run(copy, tests)
    if done.returncode == 4:
        # A test that noticed once has another name now: its whole part will be asked.
        return all(run(copy, [test]).returncode in (0, 4) for test in tests)
    if done.returncode:
        print("without a fault these tests must pass:", done.stdout[-3_000:])
    return done.returncode == 0


def run(copy: Path, tests: list[str]) -> "subprocess.CompletedProcess[str]":
    """pytest over some tests of the copy."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"TALLY_FAULT": "1", "COLUMNS": "500"}
    return subprocess.run(
        words, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
