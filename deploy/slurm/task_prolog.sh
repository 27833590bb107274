#!/bin/bash
# TaskProlog= of slurm.conf: runs as the user before every task, and what it prints as
# `export NAME=value` becomes the task's environment. Every task can then be captured, unmodified.
#
# A user who does not want that sets PROFD_DISABLE=1 (no library) or PROFD_OPTOUT=1 (nobody may
# capture) in the job; variables that the job has set itself stay as they are.
set -u

client=${PROFD_CLIENT_DIR:-/run/profd/client/current}
library=$client/profd/libprofd_client.so
hook=$client/profd/_inject

[[ ${PROFD_DISABLE:-} =~ ^(|0)$ && -r $library ]] || exit 0

if [[ -r $hook/sitecustomize.py ]]; then
  case :${PYTHONPATH:-}: in
    *:"$hook":*) ;;
    *) echo "export PYTHONPATH=$hook${PYTHONPATH:+:$PYTHONPATH}" ;;
  esac
fi
[[ -n ${CUDA_INJECTION64_PATH:-} ]] || echo "export CUDA_INJECTION64_PATH=$library"
exit 0
