"""The parameters of the parts of the benchmark: the data set, how long to measure, and the working directory.

Each part works on its own copy of the data set, which is deleted at its end: what one part sends would change the
figures of the next.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import dataset
import measurements
from dataset import DataSet
from measurements import Sizes
from queries import QueryTimes


class Bench:
    """One run. `folder` is the working directory; the part `growth` uses `times`, those of the part `read`."""

    def __init__(self, folder: Path, events: int, seconds: float, rounds: int, repeats: int, sizes: Sizes) -> None:
        self.sizes = sizes
        self.folder, self.events, self.seconds, self.rounds, self.repeats = folder, events, seconds, rounds, repeats
        self._data_sets: dict[int, DataSet] = {}
        self.times: QueryTimes | None = None

    def data_set(self, events: int | None = None) -> DataSet:
        """Return the data set, of `self.events` events by default; build it if needed. It must not be changed."""
        events = events or self.events
        if events not in self._data_sets:
            folder = self.folder if events == self.events else self.folder / f"of-{events}"
            self._data_sets[events] = dataset.prepared(folder, events)
        return self._data_sets[events]

    def measurement_data_set(self) -> DataSet:
        """Return the data set with web vitals, heatmap points and experiments added. It must not be changed."""
        return measurements.prepared(self.folder / "measured", self.data_set(), self.sizes)

    def copy(self, events: int | None = None) -> contextlib.AbstractContextManager[DataSet]:
        """Return a copy of the data set that may be changed."""
        return self.copy_of(self.data_set(events))

    @contextlib.contextmanager
    def copy_of(self, data_set: DataSet) -> Iterator[DataSet]:
        """Return a copy of a data set that may be changed."""
        working = dataset.copied(data_set, self.folder / "work")
        try:
            yield working
        finally:
            dataset.delete_database(working.db)
