"""Which addresses the server connects to for a channel."""

import socket
from ipaddress import ip_address, ip_network

import pytest

from tally.notices import addresses
from tally.notices.addresses import AddressRefused, allowed_networks, guard, is_allowed, is_public, literal
from tests.support.cases import cases

PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1")
REFUSED = (
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("255.255.255.255", "192.0.0.8", "192.0.0.9", "192.88.99.1", "198.18.0.1", "203.0.113.7", "240.0.0.1"),
    *("::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1", "100::1", "64:ff9b:1::1"),
    # Of IPv4: mapped, compatible, NAT64, 6to4, Teredo (the client's address is inverted).
    *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1"),
    *("2002:7f00:1::", "2002:a00:1::1", "2001:0:808:808::80ff:fffe", "2001:0:7f00:1::f7f7:f7f7"),
)


@cases("text", PUBLIC)
def test_public_addresses(text: str) -> None:
    assert is_public(ip_address(text))
    assert is_allowed(ip_address(text), ())
    assert not is_allowed(ip_address(text), (), is_public_allowed=False)


@cases("text", REFUSED)
def test_addresses_that_are_not_public(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not is_allowed(ip_address(text), ())


def test_networks_of_the_setting() -> None:
    networks = allowed_networks(("10.0.0.0/8", "fd00::/8"))
    for text in ("10.1.2.3", "fd00::1", "::ffff:10.1.2.3"):
        assert is_allowed(ip_address(text), networks)
        assert is_allowed(ip_address(text), networks, is_public_allowed=False)
    # An address is not reached by a translation of it, which may be routed elsewhere.
    for text in ("11.0.0.1", "2002:a01:203::", "64:ff9b::a01:203", "::a01:203"):
        assert not is_allowed(ip_address(text), networks, is_public_allowed=False)
    assert allowed_networks(("none",)) == ()
    for bad in ("10.0.0.0/33", "name", "none"):
        with pytest.raises(ValueError, match="--notify-networks"):
            allowed_networks((bad, "10.0.0.1"))


SPELLINGS = ("127.0.0.1", "127.1", "127.0.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.01", "0")


@cases("host", SPELLINGS)
def test_an_address_in_any_spelling_is_one(host: str) -> None:
    found = literal(host)
    assert found is not None
    assert ip_address(found) in (ip_address("127.0.0.1"), ip_address("0.0.0.0"))


@cases("host", ["example.com", "localhost", "127.0.0.1.example.com", "", "a" * 300, "xn--", "1.2.3.4.5"])
def test_a_name_is_no_address_and_is_not_looked_up(host: str) -> None:
    assert literal(host) is None


def test_the_guard_refuses_before_a_socket_exists() -> None:
    refuse = guard((ip_network("10.0.0.0/8"),), is_public_allowed=True)
    for host in ("127.0.0.1", "::1", "fe80::1%eth0", "::ffff:127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with pytest.raises(AddressRefused, match=addresses.SETTING):
            refuse((family, socket.SOCK_STREAM, 0, "", (host, 80)))
    refuse((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.1", 80))).close()
    with pytest.raises(AddressRefused, match="https"):
        guard((), is_public_allowed=False)((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 80)))
