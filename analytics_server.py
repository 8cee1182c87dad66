"""The entry point of Tally: `main` runs the command `analytics-server`, `build_app` makes the application.

The commands are in tally/cli/main.py, the application is in tally/web/application.py. `build_app` is imported on first
use, because most commands do not need the web server, and its import takes longer than they run.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tally.web.application import build_app as build_app


def __getattr__(name: str) -> object:
    if name == "build_app":
        from tally.web.application import build_app

        return build_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status, 130 after Ctrl-C."""
    try:
        from tally.cli.main import run  # here: Ctrl-C may arrive during the imports too

        return run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
