"""The pages of the second factor: setup, login with codes, removal, and an account that requires one."""

import time
from collections.abc import Iterator

import pyotp
import pytest
from playwright.sync_api import Browser, Page, expect

from tally.accounts.second_factor import STEP_MS
from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.owner import EMAIL, PASSWORD, add_website, set_up
from tests.browser.test_people import invite, join
from tests.support.process import Serve, Server

SECTION = "/account/sign-in"


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server of its own."""
    return serve()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own, as in another browser."""
    with pages_with_refusals(browser) as opens:
        yield opens


class Codes:
    """The authenticator app of a person: each code is of a later step than the one before."""

    def __init__(self, secret: str) -> None:
        self._totp, self._last = pyotp.TOTP(secret), 0

    def next(self) -> str:
        """Return a code that counts now, of the current step or the next one, once it does."""
        step = max(self._last + 1, self._now() - 1)
        while step > self._now() + 1:
            time.sleep(0.2)
        self._last = step
        return self._totp.generate_otp(step)

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 // STEP_MS


def confirm(page: Page) -> tuple[Codes, list[str]]:
    """Set up the second factor on a page that asks for the password; return the app and the recovery codes."""
    page.get_by_label("Current password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("img", name="QR code")).to_be_visible()
    # The image is a picture, not broken.
    assert (
        page.get_by_role("img", name="QR code").evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    )
    codes = Codes(page.locator("code.factor-secret").inner_text().replace(" ", ""))
    field = page.get_by_label("Code of the authenticator app", exact=True)
    expect(field).to_be_focused()
    field.fill("000000")
    field.press("Enter")
    expect(page.get_by_text("This code is wrong")).to_be_visible()
    field.fill(codes.next())
    field.press("Enter")
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_focused()
    shown = page.get_by_role("list", name="Recovery codes").get_by_role("listitem").all_inner_texts()
    assert len(shown) == 10
    return codes, shown


def log_in(page: Page, server: Server, email: str = EMAIL) -> None:
    """Fill in the first form of the login."""
    page.goto(server.url + "/login")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def test_a_factor_is_set_up_used_and_removed(server: Server, open_page: OpenPage) -> None:
    page, other = open_page(), open_page("narrow")
    set_up(page, server)
    page.goto(server.url + SECTION)
    page.get_by_role("button", name="Set up a second factor").click()
    expect(page.get_by_label("Current password", exact=True)).to_be_focused()
    codes, recovery = confirm(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_text().split() == recovery
    assert violations_in_each_scheme(page) == []
    page.get_by_role("button", name="I have stored the codes").click()
    expect(page.get_by_text("10 recovery codes left")).to_be_visible()
    assert violations_in_each_scheme(page) == []

    log_in(other, server)
    code = other.get_by_label("Code of the authenticator app", exact=True)
    expect(code).to_be_focused()
    assert violations_in_each_scheme(other) == []
    code.fill("000000")
    code.press("Enter")
    expect(other.get_by_text("This code is wrong")).to_be_visible()
    other.get_by_role("button", name="Use a recovery code").click()
    field = other.get_by_label("Recovery code", exact=True)
    expect(field).to_be_focused()
    field.fill(recovery[0])
    other.get_by_role("button", name="Log in").click()
    expect(other).to_have_url(server.url + "/")

    page.goto(server.url + SECTION)
    expect(page.get_by_text("1 login with your password and a wrong code")).to_be_visible()
    expect(page.get_by_text("9 recovery codes left")).to_be_visible()
    page.get_by_role("button", name="New recovery codes").click()
    page.get_by_label("Current password", exact=True).fill(PASSWORD)
    page.get_by_label("Code of the authenticator app, or recovery code").fill(recovery[1])
    page.get_by_role("button", name="New recovery codes").click()
    fresh = page.get_by_role("list", name="Recovery codes").get_by_role("listitem")
    expect(fresh).to_have_count(10)
    assert not {*fresh.all_inner_texts()} & {*recovery}
    page.get_by_role("button", name="I have stored the codes").click()
    # The other browser is logged out.
    other.goto(server.url + "/account")
    expect(other).to_have_url(f"{server.url}/login?next=%2Faccount")
    log_in(other, server)
    other.get_by_label("Code of the authenticator app", exact=True).fill(codes.next())
    other.get_by_role("button", name="Log in").click()
    expect(other).to_have_url(server.url + "/")

    page.get_by_role("button", name="Remove second factor").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Remove second factor").click()
    page.get_by_label("Current password", exact=True).fill(PASSWORD)
    page.get_by_label("Code of the authenticator app, or recovery code").fill(codes.next())
    page.get_by_role("button", name="Remove second factor").click()
    expect(page.get_by_role("button", name="Set up a second factor")).to_be_visible()


def test_an_account_requires_a_factor(server: Server, open_page: OpenPage) -> None:
    """Nothing of it is shown to one person alone; a member without one sees the setup and nothing else."""
    page, guest = open_page(), open_page("narrow")
    set_up(page, server)
    add_website(page, server)
    page.goto(server.url + "/account/people")
    expect(page.get_by_role("button", name="Invite", exact=True)).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("second factor")).to_have_count(0)
    join(guest, server, invite(page, server))
    page.reload()
    page.get_by_role("link", name="Set up a second factor").click()
    page.get_by_role("button", name="Set up a second factor").click()
    confirm(page)
    page.get_by_role("button", name="I have stored the codes").click()
    page.goto(server.url + "/account/people")
    page.get_by_role("button", name="Require a second factor").click()
    page.get_by_role("dialog").get_by_role("button", name="Require a second factor").click()
    expect(page.get_by_text("All members need a second factor.").first).to_be_visible()
    assert violations_in_each_scheme(page) == []

    guest.goto(server.url + "/account/plan")
    expect(guest).to_have_url(server.url + "/second-factor")
    expect(guest.get_by_text(f"{EMAIL} requires a second factor.")).to_be_visible()
    assert violations_in_each_scheme(guest) == []
    confirm(guest)
    guest.get_by_role("button", name="I have stored the codes").click()
    expect(guest).to_have_url(server.url + "/")
    expect(guest.get_by_role("heading", name="example.com")).to_be_visible()
