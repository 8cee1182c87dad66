"""The one page that may show another: heatmaps are drawn over the website's own page, in a frame.

The shell is the same file as everywhere; its policy differs in `frame-src`, which names the website's own addresses:
the domain and its subdomains, and the exact origins that it lists. Those are the pages that may send events for it, so
a path that a stranger made up leads nowhere else. Only who is logged in and owns the website is told them: to everybody
else this page is as any other, and frames nothing.

What is in the frame runs no script: that is said by the page (`sandbox`, static/heatmaps/heatmap_view.js), since only
the page that frames can say it. A browser keeps the policy of the page it has loaded, so static/app.js loads this page
anew when it is come to, and another one when it is left.
"""

from aiohttp import web

from tally.accounts.websites import Website
from tally.api.auth import AUTH
from tally.api.context import READER
from tally.errors import ApiError
from tally.events.urls import is_address
from tally.web import pages


async def page(request: web.Request) -> web.Response:
    """GET /websites/{id}/heatmaps: the shell, which may frame the website's pages where its owner asks."""
    session = request.app[AUTH].found(request)
    if session is None:
        return await pages.page(request)
    try:
        website = await request.app[READER].website(request, session.owner.number)
    except ApiError:
        return await pages.page(request)
    return pages.shell(request, frames_of(website))


def frames_of(website: Website) -> tuple[str, ...]:
    """The sources of frame-src for a website's pages.

    IPv6 addresses are left out: a policy has no way to write them.
    """
    names = [website.domain] if is_address(website.domain) else [website.domain, f"*.{website.domain}"]
    own = [f"{scheme}://{name}" for name in names for scheme in ("https", "http")]
    listed = sorted(origin for origin in website.origins if origin.startswith(("https://", "http://")))
    return tuple(source for source in (*own, *listed) if "[" not in source)
