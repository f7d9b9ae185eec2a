#!/usr/bin/env bash
# Installs sssp-pipeline from the folder in which this script lies, as make-wheels.sh made it, without a network.
#
#   FOLDER/install.sh VENV      # makes VENV; PYTHON names another interpreter than python3
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 VENV" >&2
    exit 2
fi
folder=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
wanted=$(cat "$folder/python-version")
found=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
if [ "$found" != "$wanted" ]; then
    echo "error: \`$python\` is Python $found, the wheels are for $wanted" >&2
    echo >&2
    echo "hint: set PYTHON=python$wanted, or make the folder again with PYTHON=python$found" >&2
    exit 2
fi
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
"$python" -m venv "$1"
pip=(env PIP_USER=0 "$1/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install --no-index --find-links "$folder/wheels" --require-hashes -r "$folder/requirements.lock"
"${pip[@]}" install --no-index --no-deps "$folder"/wheels/sssp_pipeline-*.whl
"${pip[@]}" check
echo "installed: $1/bin/sssp-pipeline"
