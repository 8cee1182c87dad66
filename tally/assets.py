"""Where the files that come with the code are: schema.sql, static/ and data/.

A wheel carries them inside the package, a source tree one level up (the build puts them into the package, see
pyproject.toml). Beside the package's code where they are, else one level up: one rule serves wheel, source tree and
editable install alike. The database is never looked for here.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def asset(name: str) -> Path:
    """The path of a file that comes with the code, such as `schema.sql` or `static/openapi.yaml`."""
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name
