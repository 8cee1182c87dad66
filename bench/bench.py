"""What the parts of the benchmark are given: the data set, how long to measure, and where to work.

Each part works on a copy of its own, deleted when it is done: what one part sends would be in the figures of the next.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import dataset
import measurements
from dataset import DataSet
from measurements import Sizes
from questions import Answers


class Bench:
    """One run. `folder`: for files of its own; `answers`: those of the part `read`, which `growth` compares with."""

    def __init__(self, folder: Path, events: int, seconds: float, rounds: int, asks: int, sizes: Sizes) -> None:
        self.sizes = sizes
        self.folder, self.events, self.seconds, self.rounds, self.asks = folder, events, seconds, rounds, asks
        self._known: dict[int, DataSet] = {}
        self.answers: Answers | None = None

    def known(self, events: int | None = None) -> DataSet:
        """The data set, or one of another size, built where it is not there yet. Not to be written into."""
        events = events or self.events
        if events not in self._known:
            folder = self.folder if events == self.events else self.folder / f"of-{events}"
            self._known[events] = dataset.prepared(folder, events)
        return self._known[events]

    def measured(self) -> DataSet:
        """The data set with measurements beside the traffic. Not to be written into."""
        return measurements.prepared(self.folder / "measured", self.known(), self.sizes)

    def copy(self, events: int | None = None) -> contextlib.AbstractContextManager[DataSet]:
        """A copy of the data set to work on."""
        return self.copy_of(self.known(events))

    @contextlib.contextmanager
    def copy_of(self, known: DataSet) -> Iterator[DataSet]:
        """A copy of any of them to work on."""
        working = dataset.copied(known, self.folder / "work")
        try:
            yield working
        finally:
            dataset.drop(working.db)
