"""A client of the pages' API that sends what a browser sends: a cookie, and headers that name the requesting page.

Cookies are kept in a dictionary, which tests can read and change.
"""

import functools
import json
import sqlite3
from collections.abc import Mapping
from http.cookies import SimpleCookie
from typing import Any

from tally.accounts import passwords
from tally.accounts.accounts import (
    AccountError,
    create_account,
    find_account,
    find_person,
    set_password_hash,
    set_plan,
)
from tests.support.app import CHROME, OWNER, Answer, App

PASSWORD = "correct horse battery"
# Hashed once: 20 ms each.
PASSWORD_HASH = passwords.hashed(PASSWORD)
OWN_PAGE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
# A share link that shows all that a link can show.
LINK = {"name": "Readers", "hide_events": False}


@functools.cache
def _password_hash(memory_kib: int) -> str:
    """Return a hash of PASSWORD with the current parameters, one for each value of passwords.MEMORY_KIB."""
    return passwords.hashed(PASSWORD)


class PageClient:
    """Sends requests as the server's own pages do."""

    def __init__(self, app: App, ip: str = "203.0.113.7", **headers: str) -> None:
        self.app, self.ip = app, ip
        self.headers = OWN_PAGE | {name.replace("_", "-"): value for name, value in headers.items()}
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """Send a request and return its response. A body is JSON unless it is bytes; headers of None are omitted."""
        sent: dict[str, str | None] = {"X-Forwarded-For": self.ip, "User-Agent": CHROME, **self.headers}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own = {name: value for name, value in sent.items() if value is not None}
        async with self.app.client.request(method, path, data=data, headers=own, allow_redirects=False) as response:
            self.set_cookies = response.headers.getall("Set-Cookie", [])
            for line in self.set_cookies:
                for name, morsel in SimpleCookie(line).items():
                    self.cookies[name] = morsel.value
                    if morsel["max-age"] == "0":
                        del self.cookies[name]
            return Answer(response.status, response.headers, await response.read())

    async def log_in(self, email: str = OWNER, password: str = PASSWORD) -> Answer:
        """Log in; return the response."""
        return await self("POST", "/api/account/login", {"email": email, "password": password})


async def account(app: App, email: str = OWNER, plan: str = "business") -> int:
    """Create an account with PASSWORD, or give it this password; return its number."""

    def make(connection: sqlite3.Connection) -> int:
        password_hash = _password_hash(passwords.MEMORY_KIB)
        try:
            number = find_account(connection, email).number
            set_password_hash(connection, find_person(connection, email).number, password_hash)
            set_plan(connection, email, plan)
            return number
        except AccountError:
            return create_account(connection, email, plan, password_hash, app.clock.wall_ms()).number

    return int(await app.admin(make))


async def logged_in(app: App, email: str = OWNER, plan: str = "business", ip: str = "203.0.113.7") -> PageClient:
    """Return a client with a session of the account."""
    await account(app, email, plan)
    browser = PageClient(app, ip)
    answer = await browser.log_in(email)
    assert answer.status == 200, answer.text
    return browser
