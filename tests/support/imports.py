"""Imports by the real command, and the figures that the read API then has.

The files of tests are of 2024. The command is called in this process, which is faster than starting one.
"""

import contextlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analytics_server import main
from tally.transfer.files import open_source
from tally.transfer.formats import IMPORTERS
from tally.transfer.records import Site as ImportSite
from tests.support.app import unpacked_countries
from tests.support.read_api import Site, SyncApp

RANGE = "from=2024-01-01&to=2024-12-31"


@dataclass
class Imports:
    """A website of a server that gets imports. `errors` is what the last command wrote to standard error."""

    sync_app: SyncApp
    site: Site
    directory: Path
    errors: str = field(default="", init=False)

    def file(self, content: str | bytes) -> Path:
        path = self.directory / "imported"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def take(self, format: str, content: str | bytes | Path, *options: str, status: int = 0) -> str:
        """Import a file and return what the command prints, without the last newline."""
        path = content if isinstance(content, Path) else self.file(content)
        words = ["import", str(path), "--website", self.site.id, "--from", format, "--db", str(self.db)]
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            ended = main([*words, "--geoip-db", str(unpacked_countries()), *options])
        self.errors = errors.getvalue()
        assert ended == status, self.errors
        self.sync_app.run(self.sync_app.app.registry.refresh())
        return out.getvalue().strip()

    def command(self, *options: str, status: int = 0) -> str:
        """Run `import` with options and without a file; return what it prints, on both outputs where it fails."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            ended = main(["import", "--website", self.site.id, "--db", str(self.db), *options])
        assert ended == status, errors.getvalue()
        self.sync_app.run(self.sync_app.app.registry.refresh())
        return out.getvalue().strip() + (errors.getvalue() if status else "")

    def items(self, format: str, content: str | bytes) -> list[Any]:
        """Return what a reader makes of the records of a file."""
        with open_source(str(self.file(content))) as source:
            reader = IMPORTERS[format].reader(source, ImportSite("example.com", unpacked_countries()))
            return [item for value, _, _ in reader.records(0) if value is not None for item in reader.read(value)]

    @property
    def db(self) -> Path:
        return self.sync_app.app.db

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return self.sync_app.app.sql(query)

    def totals(self) -> dict[str, int]:
        data = self.site.data(f"stats?{RANGE}")
        return {name: data[name] for name in ("pageviews", "visitors", "visits", "events")}

    def by_day(self, metric: str = "pageviews") -> dict[str, int]:
        rows = self.site.data(f"timeseries?{RANGE}&interval=day")
        return {row["time"][:10]: row[metric] for row in rows if row[metric]}

    def list(self, name: str, metric: str = "pageviews") -> dict[str, int]:
        """Return a figure of each value of a field."""
        return {row["value"]: row[metric] for row in self.site.data(f"top/{name}?{RANGE}&limit=1000") if row[metric]}
