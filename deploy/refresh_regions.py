#!/usr/bin/env python3
"""Write the names of regions of static/vendor from the npm package cldr-subdivisions-full (Unicode License V3).

    deploy/refresh_regions.py

The version is the one named in static/shared/regions.js. Needs npm. Afterwards adapt the row of its README.
The names are the English ones: CLDR has names in other languages for a few regions only.
"""

import json
import re
import tempfile
from collections import defaultdict
from pathlib import Path

from refresh_icons import ROOT, VENDOR, emptied, unpacked


def main() -> None:
    """Fetch the package and replace the directory."""
    source = (ROOT / "static/shared/regions.js").read_text()
    [name] = re.findall(r'"(cldr-subdivisions-full-[\d.]+)"', source)
    with tempfile.TemporaryDirectory() as directory:
        package = unpacked(name, Path(directory))
        document = json.loads((package / "subdivisions/en/en.json").read_text())
        target = VENDOR / name
        emptied(target)
        (target / "en.json").write_text(compact(document["subdivisions"]["localeDisplayNames"]["subdivisions"]))
        (target / "LICENSE").write_bytes((package / "LICENSE").read_bytes())


def compact(names: dict[str, str]) -> str:
    """Return the names by country and code: {"DE":{"BE":"Berlin"}} for {"debe": "Berlin"}."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for key, name in sorted(names.items()):
        found[key[:2].upper()][key[2:].upper()] = name
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
