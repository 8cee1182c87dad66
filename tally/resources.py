"""What comes with the code: where schema.sql, static/ and data/ are, and the version.

A wheel carries them inside the package, a source tree one level up (the build puts them into the package, see
pyproject.toml). Beside the package's code where they are, else one level up: one rule serves wheel, source tree and
editable install alike. The database is never looked for here.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def asset(name: str) -> Path:
    """The path of a file that comes with the code, such as `schema.sql` or `static/openapi.yaml`."""
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name


def tally_version() -> str:
    """The installed version; `0` in a tree that was never installed."""
    try:
        return version("tally-analytics-server")
    except PackageNotFoundError:
        return "0"
