"""How much is tested in a run: the default part, what the command line names, or everything.

`python -m pytest` alone runs the default part: random tests with few examples, and no test marked `robustness`,
`browser` or `slow`. `--all` runs every test with every example. Naming files, tests or markers runs these alone, with
every example.
"""

import os
from enum import StrEnum
from pathlib import Path

import pytest

_VARIABLE = "TALLY_TESTS"  # pytest-xdist starts its workers with the environment of the controller
# Measured seconds of the longest files, so that they start first and both workers end together. Others count as 0.
_SECONDS: dict[str, int] = {}


class Amount(StrEnum):
    """What runs."""

    default = "default"
    named = "named"
    all = "all"


def set_amount(amount: Amount) -> None:
    """Sets what runs, here and in workers that start later."""
    os.environ[_VARIABLE] = amount


def amount() -> Amount:
    """Return what runs."""
    return Amount(os.environ.get(_VARIABLE, Amount.all))


def examples(full: int, default: int) -> int:
    """Return the number of random examples: `default` in the default run, else `full`."""
    return default if amount() is Amount.default else full


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def seconds_of(path: Path) -> int:
    """Return the measured seconds of a test file, 0 where it is short."""
    return _SECONDS.get(path.name, 0)
