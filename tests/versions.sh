#!/usr/bin/env bash
# The everyday tests with the oldest dependencies that pyproject.toml allows, on the oldest Python, and with the newest
# ones on the newest: tests/versions.sh [OLDEST_PYTHON [NEWEST_PYTHON]]. Run by hand; needs the package index.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
oldest=${1:-python3.11}
newest=${2:-python3.13}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lower bounds of the dependencies as constraints: "numpy>=2.0" becomes "numpy==2.0".
"$oldest" - "$root/pyproject.toml" >"$work/oldest.txt" <<'PYTHON'
import re
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    for requirement in tomllib.load(file)["project"]["dependencies"]:
        name, bound = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()
        print(f"{name}=={bound}")
PYTHON
: >"$work/newest.txt" # no constraint: the newest

status=0
for age in oldest newest; do
    env=$work/$age
    "${!age}" -m venv "$env"
    # Of a copy, so that the environments share nothing with the checkout.
    mkdir "$env/project"
    git -C "$root" ls-files -z --cached --others --exclude-standard | tar -C "$root" --null -T - -c | tar -C "$env/project" -x
    "$env/bin/python" -m pip install --quiet --constraint "$work/$age.txt" -e "$env/project[test]"
    echo "== $age"
    "$env/bin/python" --version
    "$env/bin/python" -m pip freeze --exclude-editable | grep -iE "^($(cut -d= -f1 "$work/oldest.txt" | paste -sd'|'))=="
    (cd "$env/project" && env -u PYTHONPATH "$env/bin/python" -m pytest -q) || status=1
done
exit $status
