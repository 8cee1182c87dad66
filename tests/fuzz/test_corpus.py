"""Replay the corpora of the fuzzer: inputs that once failed, and inputs that together reach most lines.

tests/fuzz/run.py is the fuzzer itself; .ci/run runs it for a while.
"""

import pytest

from tests.fuzz import corpora
from tests.fuzz.targets import TARGETS
from tests.support.cases import cases

INPUTS = [pytest.param(name, data, id=f"{name}-{n}") for name in TARGETS for n, data in enumerate(corpora.inputs(name))]


def test_every_target_has_a_corpus() -> None:
    assert {path.stem for path in corpora.FOLDER.iterdir()} == set(TARGETS)
    assert all(len(corpora.inputs(name)) >= 20 for name in TARGETS)


@cases(("name", "data"), INPUTS)
def test_the_target_accepts_the_input(name: str, data: bytes) -> None:
    TARGETS[name](data)
