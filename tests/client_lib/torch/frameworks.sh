#!/usr/bin/env bash
# Makes a virtual environment with Lightning, transformers and Accelerate from PyPI, on top of the
# torch that current_torch.sh made, for frameworks_test.py. It stays in the cache.
#
#   frameworks.sh
set -euo pipefail

readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/profd
readonly torch=$cache/torch
readonly place=$cache/frameworks

if [[ ! -x $torch/bin/python ]]; then
  echo "frameworks: no torch in $torch: run tests/client_lib/torch/current_torch.sh first" >&2
  exit 1
fi
rm -rf "$place.new"
/usr/bin/python3 -m venv "$place.new"
packages=$("$place.new/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$torch/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
  > "$packages/torch.pth"
"$place.new/bin/pip" install --quiet --no-cache-dir lightning transformers accelerate
rm -rf "$place"
mv "$place.new" "$place"
"$place/bin/python" -c '
import accelerate, lightning, torch, transformers
for module in torch, lightning, transformers, accelerate:
    print(module.__name__, module.__version__)'
