"""The tracker in a real browser, from a page of one site to the server of another."""

from browser.conftest import Stage, Visit


def test_a_page_view_is_counted(stage: Stage, visit: Visit) -> None:
    visit(stage.put("/pricing"))
    stage.counted("/pricing")
