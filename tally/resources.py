"""Files that are installed with the code (schema.sql, static/, data/), and the installed version.

A wheel has them inside the package (pyproject.toml), a source tree one level up. The same rule serves wheel, source
tree and editable install: inside the package if the file exists there, else one level up.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def asset(name: str) -> Path:
    """Return the path of an installed file such as `schema.sql` or `static/openapi.yaml`."""
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name


def tally_version() -> str:
    """Return the installed version, `0` where the package is not installed."""
    try:
        return version("tally-analytics-server")
    except PackageNotFoundError:
        return "0"
