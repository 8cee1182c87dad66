#!/usr/bin/env python3
"""Write the flags and icons of static/vendor from npm: circle-flags, bootstrap-icons (MIT) and simple-icons (CC0 1.0).

    deploy/refresh_icons.py

The versions are those named in static/shared/marks.js, the icons those named in static/shared/brands.js; an icon that
the package does not have is an error. Needs node and npm, and fetches the packages with `npm pack`. Afterwards adapt
the rows of static/vendor/README.md. The same versions give the same files, byte for byte.

Flags are copied as they are. Icons get the colour of their brand as `fill`, or grey where it would be too light on
white: the pages draw them on a white tile in both themes. Their coordinates, of 24 units for 16 px, are rounded.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static/vendor"
# Relative luminance above which a colour is not visible on white.
MAX_LUMINANCE = 0.75
GREY = "5d5a52"


def main() -> None:
    """Fetch the packages and replace their directories."""
    flags, icons, more = re.findall(r'^const \w+ = "((?:\w+-flags|\w+-icons)-[\d.]+)"', marks(), re.MULTILINE)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        write_flags(unpacked(flags, folder), VENDOR / flags)
        write_icons(unpacked(icons, folder), VENDOR / icons, named("ICONS"))
        write_bootstrap_icons(unpacked(more, folder), VENDOR / more, named("BOOTSTRAP_COLOURS"))


def marks() -> str:
    """Return the module that names the versions."""
    return (ROOT / "static/shared/marks.js").read_text()


def named(export: str) -> Any:
    """Return the icons that static/shared/brands.js exports by a name."""
    module = json.dumps((ROOT / "static/shared/brands.js").as_uri())
    code = f"import({module}).then((brands) => console.log(JSON.stringify(brands.{export})))"
    done = subprocess.run(["node", "--eval", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def unpacked(name: str, folder: Path) -> Path:
    """Fetch a package by its name and version; return its directory."""
    package, _, version = name.rpartition("-")
    subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], check=True, cwd=folder, stdout=sys.stderr)
    with tarfile.open(folder / f"{name}.tgz") as archive:
        archive.extractall(folder / name, filter="data")
    return folder / name / "package"


def write_flags(package: Path, target: Path) -> None:
    """Copy the flags of countries, whose names have two letters, and the licence."""
    emptied(target)
    for source in package.glob("flags/??.svg"):
        (target / source.name).write_bytes(source.read_bytes())
    (target / "LICENSE").write_bytes(next(package.glob("LICENSE*")).read_bytes())


def write_icons(package: Path, target: Path, names: list[str]) -> None:
    """Copy the named icons in their colours, and the licence."""
    emptied(target)
    code = "import('./index.mjs').then((all) => console.log(JSON.stringify(Object.values(all))))"
    done = subprocess.run(["node", "--eval", code], check=True, capture_output=True, text=True, cwd=package)
    colours = {icon["slug"]: icon["hex"] for icon in json.loads(done.stdout)}
    for name in names:
        text = (package / f"icons/{name}.svg").read_text()
        colour = colours[name] if luminance(colours[name]) <= MAX_LUMINANCE else GREY
        (target / f"{name}.svg").write_text(rounded(text.replace("<svg ", f'<svg fill="#{colour.lower()}" ', 1)))
    (target / "LICENSE").write_bytes((package / "LICENSE.md").read_bytes())


def write_bootstrap_icons(package: Path, target: Path, colours: dict[str, str]) -> None:
    """Copy the named icons in the given colours, and the licence."""
    emptied(target)
    for name, colour in colours.items():
        text = (package / f"icons/{name}.svg").read_text()
        (target / f"{name}.svg").write_text(rounded(text.replace("currentColor", f"#{colour}", 1)))
    (target / "LICENSE").write_bytes((package / "LICENSE").read_bytes())


def rounded(icon: str) -> str:
    """Return an icon with its coordinates rounded to two decimals.

    Integer parts and points stay, since they separate numbers: ".999" becomes ".99".
    """

    def decimals(found: re.Match[str]) -> str:
        return "." + (f"{min(float('.' + found[1]), 0.99):.2f}"[2:].rstrip("0") or "0")

    return re.sub(r"\.(\d{3,})", decimals, icon)


def emptied(target: Path) -> None:
    """Remove a directory and make it again."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2): "0b6e75"."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


if __name__ == "__main__":
    main()
