#!/usr/bin/env bash
# Runs a command with PROFD_TORCH_PYTHON set to a Python that has a certain torch.
#
#   with_torch.sh distribution|current|frameworks COMMAND...
#
#   distribution   /usr/bin/python3, with Debian's python3-torch
#   current        PROFD_CURRENT_TORCH_PYTHON, else what current_torch.sh made
#   frameworks     PROFD_FRAMEWORKS_PYTHON, else what frameworks.sh made
#
# Exits with 77, saying why, where there is none.
set -euo pipefail

which=$1
shift
case $which in
  distribution) python=/usr/bin/python3 ;;
  current)
    python=${PROFD_CURRENT_TORCH_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/profd/torch/bin/python}
    if [[ ! -x $python ]]; then
      echo "SKIP: no current torch: tests/client_lib/torch/current_torch.sh installs one (6 GB)," \
        "PROFD_CURRENT_TORCH_PYTHON names another"
      exit 77
    fi
    ;;
  frameworks)
    python=${PROFD_FRAMEWORKS_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/profd/frameworks/bin/python}
    if [[ ! -x $python ]]; then
      echo "SKIP: no Lightning, transformers or Accelerate: tests/client_lib/torch/frameworks.sh installs them" \
        "(0.3 GB), PROFD_FRAMEWORKS_PYTHON names a Python that has them"
      exit 77
    fi
    ;;
  *)
    echo "with_torch: '$which' is none of distribution, current and frameworks" >&2
    exit 2
    ;;
esac
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "SKIP: $python has no torch"
  exit 77
fi
PROFD_TORCH_PYTHON=$python exec "$@"
