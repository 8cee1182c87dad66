"""Measure the list of data centers: the memory and time of reading 150,000 random networks, and the time of a look-up.

python bench/datacenters.py [NETWORKS]
"""

import random
import sys
import tempfile
import tracemalloc
from ipaddress import ip_address
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

from tally.events.lists import Lists, read_ranges

LOOKUPS = 200_000


def main(networks: int) -> None:
    """Print the measurements, of IPv4 and IPv6 networks alike."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ranges.txt"
        with path.open("w") as file:
            for number in range(networks):
                if number % 2:
                    file.write(f"{ip_address(draw.getrandbits(24) << 8)}/24\n")
                else:
                    file.write(f"{ip_address((0x20 << 120) | draw.getrandbits(44) << 80)}/48\n")
        begin = perf_counter()
        read_ranges(path)
        print(f"reading {networks:,} networks: {perf_counter() - begin:.2f} s")
        Lists(None).files  # noqa: B018  the bundled lists are no part of the measurement
        tracemalloc.start()
        _, ranges = read_ranges(path)
        now, peak = (size / 1_048_576 for size in tracemalloc.get_traced_memory())
        tracemalloc.stop()
    print(f"memory: {now:.1f} MB, {peak:.1f} MB while it is read")
    for version, bits in ((4, 32), (6, 128)):
        addresses = [ip_address(draw.getrandbits(bits) | (1 << 125 if version == 6 else 0)) for _ in range(1_000)]
        begin = perf_counter()
        for _ in range(LOOKUPS // 1_000):
            for address in addresses:
                address in ranges  # noqa: B015
        print(f"a look-up of IPv{version}: {(perf_counter() - begin) / LOOKUPS * 1e6:.2f} µs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 150_000)
