"""tally/web/tracker.py: configured paths of the script and of collecting must not collide with other paths."""

import pytest

from tally.settings import BadSetting, Settings
from tally.web.tracker import configured_routes
from tests.support.cases import cases


@cases(
    ("script_path", "collect_path"),
    [("/api/x.js", "/api/collect"), ("/js/x.js", "/login/send"), ("/js/x", "/js/x")],
    ids=["the script below /api", "collecting below a page", "both the same"],
)
def test_paths_that_collide_are_refused(script_path: str, collect_path: str) -> None:
    with pytest.raises(BadSetting, match="collides"):
        configured_routes(Settings(script_path=script_path, collect_path=collect_path), ["/api/collect", "/login"])
