"""Passkeys on the pages, with the authenticator of Chromium's DevTools (domain WebAuthn): a real browser, no device."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.owner import PASSWORD, set_up
from tests.browser.test_people import invite, join
from tests.browser.test_second_factor import confirm, log_in
from tests.support.certificate_authority import free_ports
from tests.support.process import Serve, Server

SECTION = "/account/sign-in"


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server at http://localhost, for which browsers have passkeys without https."""
    (port,) = free_ports(1)
    started = serve("--port", str(port), "--base-url", f"http://localhost:{port}")
    started.url = f"http://localhost:{port}"
    return started


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own, as in another browser."""
    with pages_with_refusals(browser) as opens:
        yield opens


class Device:
    """An authenticator of a page: of a device with a screen lock, whose person answers at once."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
        self._id = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]

    def credentials(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._session.send("WebAuthn.getCredentials", {"authenticatorId": self._id})[
            "credentials"
        ]
        return found

    def put(self, credential: dict[str, Any], **changed: Any) -> None:
        """Add a passkey, also one of another device, or in place of its own with the same id."""
        self._session.send("WebAuthn.clearCredentials", {"authenticatorId": self._id})
        self._session.send("WebAuthn.addCredential", {"authenticatorId": self._id, "credential": credential | changed})

    def verifies(self, is_verified: bool) -> None:
        self._session.send("WebAuthn.setUserVerified", {"authenticatorId": self._id, "isUserVerified": is_verified})


def add(page: Page, name: str = "Laptop") -> None:
    """Add a passkey on the section Sign-in."""
    page.get_by_role("button", name="Add a passkey").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Current password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("rowheader", name=name)).to_be_visible()


def use(page: Page, server: Server) -> None:
    """Press the button of the login page."""
    page.goto(server.url + "/login")
    page.get_by_role("button", name="Use a passkey").click()


def test_a_passkey_is_added_signs_in_and_is_removed(server: Server, open_page: OpenPage) -> None:
    page, other = open_page(), open_page("narrow")
    set_up(page, server)
    device = Device(page)
    other.goto(server.url + "/login")
    expect(other.get_by_label("Email")).to_be_focused()
    # Where nobody has one, the login shows nothing of them.
    expect(other.get_by_role("button", name="Use a passkey")).to_have_count(0)
    page.goto(server.url + SECTION)
    expect(page.get_by_text("A passkey logs you in")).to_be_visible()
    assert violations_in_each_scheme(page) == []
    add(page)
    (credential,) = device.credentials()
    assert (credential["rpId"], credential["isResidentCredential"]) == ("localhost", True)
    assert violations_in_each_scheme(page) == []

    # In the same browser, logged out.
    page.context.clear_cookies()
    page.goto(server.url + "/login")
    expect(page.get_by_label("Email")).to_be_visible()
    assert violations_in_each_scheme(page) == []
    page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url(server.url + "/")

    # A second browser to which the passkey was synchronised; one without it does not log in.
    synchronised = Device(other)
    use(other, server)
    expect(other.get_by_text("The passkey was not used")).to_be_visible()
    synchronised.put(device.credentials()[0])
    other.get_by_role("button", name="Use a passkey").click()
    expect(other).to_have_url(server.url + "/")
    other.goto(server.url + SECTION)
    expect(other.get_by_role("rowheader", name="Laptop")).to_be_visible()
    assert violations_in_each_scheme(other) == []

    # The first device, whose count the second one has passed.
    page.goto(server.url + SECTION)
    page.get_by_role("button", name="Remove the passkey Laptop").click()
    page.get_by_label("Current password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Remove passkey").click()
    expect(page.get_by_text("This passkey is unknown here")).to_be_visible()
    device.put(credential, signCount=50)
    page.get_by_role("button", name="Remove passkey").click()
    expect(page.get_by_role("rowheader", name="Laptop")).to_have_count(0)
    expect(page.get_by_text("A passkey was refused")).to_be_visible()
    assert violations_in_each_scheme(page) == []
    other.goto(server.url + "/account")
    expect(other).to_have_url(f"{server.url}/login?next=%2Faccount")
    expect(other.get_by_role("button", name="Use a passkey")).to_have_count(0)


def test_what_is_refused(server: Server, open_page: OpenPage) -> None:
    page, other = open_page(), open_page()
    set_up(page, server)
    device = Device(page)
    page.goto(server.url + SECTION)
    add(page)
    (credential,) = device.credentials()
    page.context.clear_cookies()

    # A person whom the device does not verify.
    device.verifies(False)
    use(page, server)
    expect(page.get_by_text("The passkey was not used")).to_be_visible()
    device.verifies(True)

    # A count that goes back.
    device.put(credential, signCount=9)
    with page.expect_request("**/login/passkey/finish") as sent:
        page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url(server.url + "/")
    page.context.clear_cookies()
    device.put(credential, signCount=5)
    use(page, server)
    expect(page.get_by_text("This passkey is unknown here")).to_be_visible()

    # What has signed in is sent again, by another browser.
    other.goto(server.url + "/login")
    again = other.evaluate(
        """(body) => fetch("/api/account/login/passkey/finish", { method: "POST", body,
        headers: { "Content-Type": "application/json" } }).then((answer) => answer.status)""",
        sent.value.post_data,
    )
    assert again == 401
    # Of a page of another origin the browser has no passkey.
    other.goto(server.url.replace("localhost", "127.0.0.1") + "/login")
    Device(other).put(credential)
    other.get_by_role("button", name="Use a passkey").click()
    expect(other.get_by_text("The passkey was not used")).to_be_visible()
    # A passkey of another server, under the same host.
    key = base64.b64encode(bytes(16)).decode()
    device.put(credential, credentialId=key, signCount=99)
    use(page, server)
    expect(page.get_by_text("This passkey is unknown here")).to_be_visible()


def test_an_account_that_requires_a_factor_is_entered_by_a_passkey(server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(), open_page("narrow")
    set_up(page, server)
    device = Device(page)
    page.goto(server.url + "/account/people")
    join(guest, server, invite(page, server))
    page.goto(server.url + SECTION)
    add(page)
    page.goto(server.url + "/account/people")
    page.get_by_role("button", name="Require a second factor").click()
    page.get_by_role("dialog").get_by_role("button", name="Require a second factor").click()
    expect(page.get_by_text("All members need a second factor.").first).to_be_visible()
    page.context.clear_cookies()
    log_in(page, server)
    expect(page.get_by_text("log in with your passkey")).to_be_visible()
    assert violations_in_each_scheme(page) == []
    page.get_by_role("button", name="Use a passkey").click()
    expect(page).to_have_url(server.url + "/")
    # A second one, and an app, each after the first one was used.
    page.goto(server.url + SECTION)
    first = device.credentials()[0]
    device.put(first, signCount=20)
    page.get_by_role("button", name="Set up a second factor").click()
    confirm(page)
    page.get_by_role("button", name="I have stored the codes").click()

    # A member without a factor may choose a passkey in place of an app.
    Device(guest)
    guest.goto(server.url + "/")
    expect(guest).to_have_url(server.url + "/second-factor")
    guest.get_by_role("button", name="Use a passkey instead").click()
    assert violations_in_each_scheme(guest) == []
    guest.get_by_label("Name", exact=True).fill("Phone")
    guest.get_by_label("Current password", exact=True).fill(PASSWORD)
    guest.get_by_role("button", name="Add a passkey").click()
    expect(guest).to_have_url(server.url + "/")


def test_without_a_base_url_the_section_says_why(serve: Serve, open_page: OpenPage) -> None:
    page, started = open_page(), serve()
    set_up(page, started)
    page.goto(started.url + SECTION)
    expect(page.get_by_text("Passkeys need the setting --base-url")).to_be_visible()
    expect(page.get_by_role("button", name="Add a passkey")).to_have_count(0)
