"""Writes geolocation databases for tests in the MMDB format (https://maxmind.github.io/MaxMind-DB/)."""

from ipaddress import ip_network

MADE = 1_780_345_978  # 2026-06-01T20:32:58Z


UNSIGNED = {2: 5, 4: 6, 8: 9}  # width in bytes: data type


def unsigned(value: int, width: int) -> bytes:
    """Return an unsigned integer of the data section; `width` is in bytes."""
    return head(UNSIGNED[width], width) + value.to_bytes(width, "big")


def head(kind: int, size: int) -> bytes:
    """Return the control bytes of a value: its data type and its size."""
    assert size < 285, "longer sizes are not implemented"
    length, more = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return (bytes([kind << 5 | length]) if kind < 8 else bytes([length, kind - 7])) + more


def encoded(value: object) -> bytes:
    """Return a value of the data section: map, list, string or 32-bit integer. Bytes are returned unchanged."""
    match value:
        case dict():
            return head(7, len(value)) + b"".join(encoded(key) + encoded(entry) for key, entry in value.items())
        case list():
            return head(11, len(value)) + b"".join(map(encoded, value))
        case str():
            return head(2, len(value.encode())) + value.encode()
        case int():
            return unsigned(value, 4)
        case bytes():
            return value
    raise TypeError(value)


def mmdb(records: dict[str, object], *, ip_version: int = 6, made: int = MADE) -> bytes:
    """Return a database of networks and their records. With ip_version 6, IPv4 networks are below ::/96."""
    nodes: list[list[int | bytes | None]] = [[None, None]]
    for network, record in records.items():
        for_bits = ip_network(network)
        bits = f"{int(for_bits.network_address):0{for_bits.max_prefixlen}b}"[: for_bits.prefixlen]
        path = [int(bit) for bit in "0" * (96 if ip_version == 6 and for_bits.version == 4 else 0) + bits]
        node = 0
        for bit in path[:-1]:
            if nodes[node][bit] is None:
                nodes.append([None, None])
                nodes[node][bit] = len(nodes) - 1
            following = nodes[node][bit]
            assert isinstance(following, int)
            node = following
        nodes[node][path[-1]] = encoded(record)
    data, tree = b"", b""
    for sides in nodes:
        for side in sides:
            if isinstance(side, bytes):
                pointer, data = len(nodes) + 16 + len(data), data + side
            else:
                pointer = len(nodes) if side is None else side
            tree += pointer.to_bytes(3, "big")
    metadata = {
        "node_count": unsigned(len(nodes), 4),
        "record_size": unsigned(24, 2),
        "ip_version": unsigned(ip_version, 2),
        "database_type": "Test",
        "languages": ["en"],
        "binary_format_major_version": unsigned(2, 2),
        "binary_format_minor_version": unsigned(0, 2),
        "build_epoch": unsigned(made, 8),
        "description": {"en": "written by a test"},
    }
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(metadata)
