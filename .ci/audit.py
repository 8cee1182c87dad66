"""Asks whether an advisory is known for a release in requirements.lock; exit status 1 where one is.

pip-audit asks the package index, which answers with its own list of advisories. Where that cannot be reached this says
so, loudly, and passes: a test that nobody can run is no reason to stop everything. pip-audit itself passes in silence.
"""

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
# our choice: without an answer by then there will be none.
MOST_S = 120


def main() -> int:
    """Asks; prints what is known."""
    words = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format", "json"]
    try:
        done = subprocess.run([*words, "--requirement", str(LOCK)], capture_output=True, text=True, timeout=MOST_S)
        found = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError) as failure:
        return skipped(f"pip-audit gave no answer ({type(failure).__name__})")
    asked = [one for one in found if "vulns" in one]
    bad = [one for one in asked if one["vulns"]]
    for one in bad:
        for advisory in one["vulns"]:
            print(f"{one['name']} {one['version']}: {advisory['id']}, mended in {advisory['fix_versions']}")
    if bad:
        return 1
    if len(asked) < len(found):
        names = ", ".join(one["name"] for one in found if one not in asked)
        return skipped(f"the index told nothing about {len(found) - len(asked)} of {len(found)} packages: {names}")
    print(f"no advisory is known for any of the {len(asked)} packages of requirements.lock")
    return 0


def skipped(why: str) -> int:
    """Says what was not looked at."""
    print(f"NOT AUDITED: {why}. Run it where the package index answers in full: python .ci/audit.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
