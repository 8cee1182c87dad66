"""How much is tested in a run: the default part, what the command line names, or everything.

`python -m pytest` alone runs the default part: random tests with few examples, and no test that is marked `robustness`,
`browser` or `slow` or that starts the command as a process, except those marked `by_default`. `--rest` runs what the
default part leaves out: these tests, and those marked `random_examples` with every example. `--all` runs every test
with every example. Naming files, tests or markers runs these alone, with every example.

With TALLY_TURN, any text, `--rest` takes turns, which the text decides. A fourth runs of the tests marked `in_turn`,
which are slow and rarely fail alone, and of those marked `random_examples`, which have run with fewer examples; the
half of the files of tests/browser and tests/robustness. TALLY_CHANGED names a file with the paths that a change
touches, one a line: test files among them run whole, and all of tests/browser where one is below static/.
"""

import hashlib
import os
import random
import secrets
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import pytest

_VARIABLE = "TALLY_TESTS"  # pytest-xdist starts its workers with the environment of the controller
# Seconds of the longest files, so that they start first and both workers end together. Others count as 0. Measured on
# a busy machine and scaled to an idle one: their order is what counts.
_SECONDS = {
    "test_model.py": 176,
    "test_lost_machine.py": 120,
    "test_dashboard.py": 79,
    "test_process.py": 71,
    "test_openapi.py": 70,
    "test_failing_disk.py": 65,
    "test_tracker.py": 60,
    "test_clock_changes.py": 59,
    "test_rollup_builder.py": 54,
    "test_account_pages.py": 54,
    "test_heatmaps_page.py": 53,
    "test_rollups.py": 50,
    "test_crash_in_background_work.py": 49,
    "test_tracker_queue.py": 43,
    "test_dashboard_layout.py": 40,
    "test_crash.py": 39,
    "test_transfer.py": 39,
    "test_commands.py": 37,
    "test_release.py": 37,
    "test_events_page.py": 36,
    "test_database.py": 34,
    "test_rejected_events_page.py": 32,
    "test_disconnected_clients.py": 30,
    "test_sharing.py": 30,
    "test_privacy.py": 26,
    "test_frame.py": 24,
    "test_web_vitals_page.py": 23,
    "test_backup.py": 22,
    "test_listener.py": 22,
    "test_memory.py": 22,
    "test_tracker_leaving.py": 22,
    "test_injection.py": 21,
    "test_tracker_loading.py": 21,
    "test_doctor.py": 19,
    "test_mutations.py": 19,
    "test_hostile_clients.py": 20,
    "test_ranges.py": 19,
    "test_funnels_page.py": 18,
    "test_scheduler.py": 18,
    "test_overview.py": 16,
    "test_offsite.py": 14,
    "test_storage_servers.py": 30,
    "test_experiments_page.py": 15,
    "test_verify.py": 40,
    "test_retention.py": 26,
    "test_stats.py": 24,
    "test_query_plans.py": 20,
    "test_authorization.py": 18,
    "test_account_api.py": 17,
    "test_imports.py": 16,
    "test_sums.py": 16,
    "test_login_throttling.py": 15,
    "test_login.py": 14,
    "test_funnels.py": 13,
    "test_web_vitals.py": 13,
    "test_heatmaps.py": 13,
    "test_read_errors.py": 12,
    "test_event_data.py": 12,
    "test_undo.py": 12,
    "test_goal_days.py": 11,
    "test_clients.py": 11,
    "test_architecture.py": 6,
}


SEED = int(os.environ.get("TALLY_SEED") or (0 if "TALLY_FAULT" in os.environ else secrets.randbelow(1 << 30)))
"""Of random choices other than Hypothesis's. A test that fails has printed it, and TALLY_SEED=... repeats it."""


class Amount(StrEnum):
    """What runs."""

    default = "default"
    named = "named"
    rest = "rest"
    all = "all"


def set_amount(amount: Amount) -> None:
    """Set what runs, here and in workers that start later."""
    os.environ[_VARIABLE] = amount


def amount() -> Amount:
    """Return what runs."""
    return Amount(os.environ.get(_VARIABLE, Amount.all))


def examples(full: int, default: int) -> int:
    """Return the number of random examples: `default` in the default run, else `full`.

    A test that uses it is marked `random_examples`, so that `--rest` runs it again.
    """
    return default if amount() is Amount.default else full


def first_of(stride: int) -> int:
    """Return a random number below `stride`.

    A test that begins with the step of this number, and tests every `stride`-th one, covers all steps over many runs.
    """
    print(f"repeat it with TALLY_SEED={SEED}")
    return random.Random(f"{SEED} {stride}").randrange(stride)


def has_turn(name: str, turns: int = 4) -> bool:
    """Return whether a test or a file runs now, of those that take so many turns."""
    turn = os.environ.get("TALLY_TURN")
    return not turn or hashlib.sha256(f"{turn} {name}".encode()).digest()[0] % turns == 0


def changed_paths() -> list[str]:
    """Return the paths that a change touches, none where they are not known."""
    changed = os.environ.get("TALLY_CHANGED")
    return Path(changed).read_text().splitlines() if changed else []


def is_touched(file: str, paths: Sequence[str]) -> bool:
    """Return whether a change of some paths touches a test file, or what it tests."""
    return file in paths or (file.startswith("tests/browser/") and any(path.startswith("static/") for path in paths))


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def seconds_of(path: Path) -> int:
    """Return the measured seconds of a test file, 0 where it is short."""
    return _SECONDS.get(path.name, 0)
