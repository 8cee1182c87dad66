"""Print the known advisories for releases in deploy/requirements-offsite.lock; exit status 1 if there are any.

pip-audit queries the package index. If the index cannot be reached, this prints NOT AUDITED and passes: without network
the rest of CI should still run, whose last lines repeat it. On hosted CI (GITHUB_ACTIONS=true, which has a network) it
fails then. pip-audit itself passes without a message in that case.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "deploy" / "requirements-offsite.lock"
# A complete run takes some seconds.
TIMEOUT_S = 120


def main() -> int:
    """Print the known advisories; return the exit status."""
    words = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format", "json"]
    try:
        done = subprocess.run([*words, "--requirement", str(LOCK)], capture_output=True, text=True, timeout=TIMEOUT_S)
        found = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError) as failure:
        return skipped(f"pip-audit returned no result ({type(failure).__name__})")
    audited = [package for package in found if "vulns" in package]
    vulnerable = [package for package in audited if package["vulns"]]
    for package in vulnerable:
        for advisory in package["vulns"]:
            print(f"{package['name']} {package['version']}: {advisory['id']}, fixed in {advisory['fix_versions']}")
    if vulnerable:
        return 1
    if len(audited) < len(found):
        names = ", ".join(package["name"] for package in found if package not in audited)
        return skipped(f"the index has no data for {len(found) - len(audited)} of {len(found)} packages: {names}")
    print(f"no advisory is known for any of the {len(audited)} packages of requirements-offsite.lock")
    return 0


def skipped(reason: str) -> int:
    """Print what was not audited; return the exit status."""
    print(f"NOT AUDITED: {reason}. Run it where the package index can be reached: python .ci/audit.py")
    return int(os.environ.get("GITHUB_ACTIONS") == "true")


if __name__ == "__main__":
    sys.exit(main())
