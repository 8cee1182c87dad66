"""Websites and stored events for the tests of other systems' wire formats."""

from typing import Any

from tests.support.app import App


async def website_of(app: App) -> str:
    """Return the id of example.com, created by the first call: cases of a table share an application."""
    found = app.sql("select id from website where domain = 'example.com'")
    return str(found[0][0]) if found else await app.website("example.com")


async def stored(app: App, website: str) -> list[dict[str, Any]]:
    """Return a website's events, oldest first."""
    answer = await app.get(f"/api/v1/websites/{website}/events", await app.key(), params={"limit": "1000"})
    return list(reversed(answer.json["data"]))


async def newest(app: App, website: str) -> dict[str, Any]:
    """Return the event of a website that was stored last."""
    return (await stored(app, website))[-1]
