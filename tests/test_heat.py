"""tally/heat.py, tally/heat_days.py and tally/heat_figures.py against plain counting of what was sent."""

from typing import Any

from conftest import NOON_MS, Answer, House

DAY_MS = 86_400_000
DAY = "2026-11-18"
CLICK = {"x": 0.5, "y": 70, "kind": "click"}


async def send(
    house: House, website: str, path: str, *points: dict[str, Any], width: int = 1_280, ts: int = NOON_MS
) -> None:
    event = {"type": "heatmap", "url": f"https://example.com{path}", "viewport_width": width, "timestamp": ts}
    answer = await house.collect({"website_id": website, "events": [event | {"points": list(points)}]})
    assert answer.status == 202, answer.text


async def ask(house: House, key: str, website: str, what: str, **params: Any) -> Answer:
    return await house.get(f"/api/v1/websites/{website}/{what}", key, params)


async def test_a_page(house: House) -> None:
    website, key = await house.website(), await house.key()
    await send(
        house, website, "/a", CLICK, CLICK, {"x": 1, "y": 0, "kind": "click"}, {"x": 0, "y": 50, "kind": "scroll"}
    )
    await send(house, website, "/a", CLICK, {"x": 0, "y": 19, "kind": "scroll"}, ts=NOON_MS - DAY_MS)
    for _ in range(2):
        answer = await ask(house, key, website, "heatmap", pathname="/a")
        assert answer.status == 200, answer.text
        assert answer.json["data"] == {
            "grid": [[49, 0, 1], [25, 3, 3]],
            "bins_x": 50,
            "bin_height": 20,
            "samples": 2,
            "clicks": 4,
            "scroll": [100.0, 50.0, 50.0],
        }
        pages = await ask(house, key, website, "heatmap-pages")
        assert pages.json["data"] == [{"value": "/a", "samples": 2, "clicks": 4}], pages.text
        house.clock.advance(86_400)
        await house.store.builder.work()
    assert house.sql("select count(*) from heat") == [(0,)]
