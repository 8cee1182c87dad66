"""Texts of clicked elements, which name the cells of a heatmap (docs/decisions/heatmap-texts.md)."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.app import App

URL = "https://example.com/"
HOUR_MS = 3_600_000
Where = tuple[float, float, str | None]


class Texts:
    """A website whose page has clicks with texts."""

    def __init__(self, app: App, website: str, key: str) -> None:
        self.app, self.website, self.key = app, website, key

    async def click(self, *points: Where, ago_ms: int = 0, **more: Any) -> None:
        """Send clicks of one event."""
        sent = [{"kind": "click", "x": x, "y": y, "text": text} for x, y, text in points]
        event = {"type": "heatmap", "url": URL, "website_id": self.website, "viewport_width": 1_280, "points": sent}
        timestamp = self.app.clock.wall_ms() - ago_ms
        answer = await self.app.collect(event | {"timestamp": timestamp} | more)
        assert answer.status == 202, answer.text

    async def shown(self, path: str = "/", *devices: str) -> list[Sequence[Any]]:
        params = {"pathname": path} | ({"filter_device": list(devices)} if devices else {})
        answer = await self.app.get(f"/api/v1/websites/{self.website}/heatmap", self.key, params)
        assert answer.status == 200, answer.text
        found: list[Sequence[Any]] = answer.json["data"]["texts"]
        return found


@pytest.fixture
async def named(app: App) -> Texts:
    return Texts(app, await app.website(), await app.key())


async def test_a_cell_has_the_text_of_its_newest_click(named: Texts) -> None:
    await named.click((0.5, 100, "Pricing"), (0.1, 30, "Log in"), (0.9, 30, None))
    assert await named.shown() == [[5, 1, "Log in"], [25, 5, "Pricing"]]
    # Within an hour it stays; a late event changes nothing.
    await named.click((0.5, 105, "Plans"), ago_ms=-1_000)
    await named.click((0.5, 105, "Old"), ago_ms=5 * HOUR_MS)
    assert await named.shown() == [[5, 1, "Log in"], [25, 5, "Pricing"]]
    named.app.clock.advance(2 * 3_600)
    await named.click((0.5, 105, "Plans"))
    assert await named.shown() == [[5, 1, "Log in"], [25, 5, "Plans"]]


async def test_width_classes_have_texts_of_their_own(named: Texts) -> None:
    await named.click((0.5, 100, "Menu"), viewport_width=390, ago_ms=1_000)
    await named.click((0.5, 100, "Pricing"))
    assert await named.shown("/", "mobile") == [[25, 5, "Menu"]]
    assert await named.shown("/", "desktop") == [[25, 5, "Pricing"]]
    # Of several the newest.
    assert await named.shown() == [[25, 5, "Pricing"]]
    assert await named.shown("/nowhere") == []


async def test_a_text_has_one_space_for_white_space_and_80_characters(named: Texts) -> None:
    await named.click((0.1, 0, "  See\n\tthe  plans "), (0.2, 0, "x" * 5_000), (0.3, 0, "  \n "))
    assert await named.shown() == [[5, 0, "See the plans"], [10, 0, "x" * 80]]


@pytest.mark.parametrize("text", [5, ["Pricing"], "a\0b"])
async def test_what_is_no_text_is_refused(named: Texts, text: object) -> None:
    point = {"kind": "click", "x": 0.5, "y": 5, "text": text}
    event = {"type": "heatmap", "url": URL, "website_id": named.website, "viewport_width": 1_280, "points": [point]}
    answer = await named.app.collect(event)
    assert (answer.status, answer.json["errors"][0]["field"]) == (400, "points")


async def test_scroll_depths_have_no_text(named: Texts) -> None:
    await named.click((0, 100, None), points=[{"kind": "scroll", "x": 0, "y": 100, "text": "Pricing"}])
    assert await named.shown() == []


async def test_a_page_has_at_most_100_cells_with_a_text(named: Texts) -> None:
    """Further cells have none; the texts of those that have one still change."""
    for start in range(0, 300, 50):
        await named.click(*((0.5, 20 * (start + n), f"Text {start + n}") for n in range(50)))
    assert [text for *_, text in await named.shown()] == [f"Text {n}" for n in range(100)]
    named.app.clock.advance(2 * 3_600)
    await named.click((0.5, 0, "New"), (0.5, 20 * 200, "None"))
    shown = await named.shown()
    assert (len(shown), shown[0][2]) == (100, "New")


async def test_texts_are_in_no_list_of_events_and_no_export(named: Texts) -> None:
    await named.click((0.5, 100, "Secret name"))
    events = await named.app.get(f"/api/v1/websites/{named.website}/events", named.key)
    assert "Secret name" not in events.text
