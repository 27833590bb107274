#!/usr/bin/env bash
# Makes a virtual environment with a torch from PyPI, for the tests of this folder, and leaves it
# in the cache, where later runs find it.
#
#   current_torch.sh [VERSION]     default: the newest that pip finds for this Python
#
# It takes some 6 GB, most of it CUDA's libraries, which torch loads also without a GPU.
set -euo pipefail

readonly place=${XDG_CACHE_HOME:-$HOME/.cache}/profd/torch
readonly needed_kib=$((10 << 20))

mkdir -p "$(dirname "$place")"
free_kib=$(df --output=avail -k "$(dirname "$place")" | tail -n 1)
if [[ $free_kib -lt $needed_kib ]]; then
  echo "current_torch: $place needs 10 GB free, there are $((free_kib >> 20))" >&2
  exit 1
fi
rm -rf "$place.new"
# A registry that does not answer costs little.
if ! timeout 30 /usr/bin/python3 -m pip index versions torch >/dev/null 2>&1; then
  # pip index is experimental; without it the download itself tells.
  if /usr/bin/python3 -m pip index --help >/dev/null 2>&1; then
    echo "current_torch: the package index does not answer" >&2
    exit 1
  fi
fi
/usr/bin/python3 -m venv "$place.new"
"$place.new/bin/pip" install --quiet --no-cache-dir "torch${1:+==$1}" numpy setuptools
rm -rf "$place"
# Its programs name the folder they were installed in; only `python` is used, which does not.
mv "$place.new" "$place"
"$place/bin/python" -c 'import torch; print(torch.__version__)'
