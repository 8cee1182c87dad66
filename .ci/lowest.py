"""Print constraints for pip: the lowest allowed release of each dependency, and the bounds of the test tools."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"

project = tomllib.loads(PROJECT.read_text())["project"]
for line in project["dependencies"]:
    name, lowest = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=([0-9.]+)", line).groups()
    print(f"{name}=={lowest}")
# A constraint cannot name extras.
print(*(re.sub(r"\[[^\]]*\]", "", line) for line in project["optional-dependencies"]["test"]), sep="\n")
