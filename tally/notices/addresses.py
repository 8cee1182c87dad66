"""Decide to which addresses the server connects for a channel: public ones, and those of --notify-networks.

The URL of a channel comes from an account, so that the server must not become a way into its own network. The check is
made of the address that is about to be connected to (`guard`, the socket factory of aiohttp's connector): after the
name was looked up, so that another answer of the name changes nothing, and for addresses written in any spelling.

`ipaddress.is_global` is not enough. IPv6 addresses that contain an IPv4 address count as that address: mapped
(::ffff:0:0/96), compatible (::/96), 6to4 (RFC 3056), Teredo (RFC 4380) and NAT64 (RFC 6052).
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from tally.events.client import Network, parse_networks

SETTING = "--notify-networks"
# SMTP: a request could be read as mail.
REFUSED_PORTS = frozenset((25, 465, 587))
_Address = IPv4Address | IPv6Address
_COMPATIBLE, _NAT64 = IPv6Network("::/96"), IPv6Network("64:ff9b::/96")
# RFC 8215: NAT64 of a network, RFC 3879: site-local, RFC 6890: protocol assignments, RFC 7526: anycast of 6to4.
_REFUSED = tuple(
    ip_network(text) for text in ("64:ff9b:1::/48", "fec0::/10", "192.0.0.0/24", "192.88.99.0/24", "100::/64")
)
_LOW_32_BITS = 0xFFFFFFFF


def allowed_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks of the setting. Raises ValueError with the fix."""
    return () if [*texts] == ["none"] else parse_networks(texts, SETTING, "none")


class AddressRefused(OSError):
    """The server does not connect to the address; the message names the setting."""


def is_public(address: _Address) -> bool:
    """Return whether an address is one of the internet; an address that contains others is what they are."""
    contained = _contained(address)
    if contained:
        return all(is_public(one) for one in contained)
    is_refused = any(address in network for network in _REFUSED if network.version == address.version)
    return address.is_global and not address.is_multicast and not is_refused


def _contained(address: _Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses in an IPv6 address."""
    if isinstance(address, IPv4Address):
        return ()
    if address in _COMPATIBLE or address in _NAT64:
        return (IPv4Address(int(address) & _LOW_32_BITS),)
    return address.teredo or tuple(one for one in (address.ipv4_mapped, address.sixtofour) if one is not None)


def is_allowed(address: _Address, networks: Sequence[Network], *, is_public_allowed: bool = True) -> bool:
    """Return whether the server connects to an address. `is_public_allowed`: not only to those of `networks`."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    for one in (address, mapped):
        if one is not None and any(one in network for network in networks if network.version == one.version):
            return True
    return is_public_allowed and is_public(address)


def check(address: str, networks: Sequence[Network], *, is_public_allowed: bool = True) -> None:
    """Raise AddressRefused unless the server connects to an address."""
    # The zone of a link-local address.
    if not is_allowed(ip_address(address.partition("%")[0]), networks, is_public_allowed=is_public_allowed):
        if is_public_allowed:
            raise AddressRefused(f"The address is not public: the server's owner can allow its network ({SETTING}).")
        raise AddressRefused(f"http is allowed for networks of {SETTING} alone: use https.")


def guard(networks: Sequence[Network], *, is_public_allowed: bool) -> Callable[[Any], socket.socket]:
    """Return a socket factory for aiohttp, which raises AddressRefused in place of connecting to an address."""

    def new_socket(info: Any) -> socket.socket:
        family, kind, protocol, _, (host, *_) = info
        check(host, networks, is_public_allowed=is_public_allowed)
        return socket.socket(family, kind, protocol)

    return new_socket


def literal(host: str) -> str | None:
    """Return the address that a host is, in whichever spelling the system reads (127.1, 0x7f000001); None for a name.

    No name is looked up.
    """
    try:
        (first, *_) = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return str(first[4][0])
