#!/usr/bin/env bash
# Makes a folder from which install.sh installs sssp-pipeline on a machine without a network: every wheel that a lock
# names, the pipeline's own wheel, the lock, checksums and install.sh itself.
#
#   make-wheels.sh FOLDER [LOCK]      # requirements-gpu.lock if not given; requirements.lock is enough for CPUs
#
#   PYTHON      interpreter of the same minor release as that of the machine to install on; python3 if not set
#   SSSP_GLIBC  newest `manylinux_2_N` to take, for machines older than this one; 28 if not set (RHEL 8, Debian 10)
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 FOLDER [LOCK]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
lock=${2:-$root/requirements-gpu.lock}
if [ ! -f "$lock" ]; then
    echo "error: no lock at \`$lock\`" >&2
    exit 2
fi
if [ -e "$1" ] && [ -n "$(ls -A "$1")" ]; then
    echo "error: \`$1\` is not empty" >&2
    exit 2
fi
umask 022
mkdir -p "$1/wheels"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
# A user-wide `user = true` in pip's configuration would keep it from installing into any venv.
pip=(env PIP_USER=0 "$work/venv/bin/python" -m pip --disable-pip-version-check --quiet)

# pip takes a platform literally, so all that machines of this processor can run are named.
machine=$(uname -m)
platforms=(--platform "linux_$machine" --platform "manylinux1_$machine" --platform "manylinux2010_$machine"
    --platform "manylinux2014_$machine")
for minor in $(seq 5 "${SSSP_GLIBC:-28}"); do
    platforms+=(--platform "manylinux_2_${minor}_$machine")
done
"${pip[@]}" download --only-binary :all: "${platforms[@]}" --no-deps --require-hashes -r "$lock" -d "$folder/wheels"

"${pip[@]}" install --only-binary :all: --require-hashes -r "$root/requirements-build.lock"
"${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$folder/wheels" "$root"

cp "$lock" "$folder/requirements.lock"
cp "$here/install.sh" "$folder/install.sh"
"$work/venv/bin/python" -c 'import sys; print("{}.{}".format(*sys.version_info))' >"$folder/python-version"
(cd "$folder" && find . -type f ! -name SHA256SUMS -print0 | sort -z | xargs -0 sha256sum >"$work/sums")
mv "$work/sums" "$folder/SHA256SUMS"
echo "$(find "$folder/wheels" -name '*.whl' | wc -l) wheels, $(du -sh "$folder" | cut -f1): $folder"
