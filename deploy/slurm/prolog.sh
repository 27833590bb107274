#!/bin/bash
# Prolog= of slurm.conf: runs as root on every node of a job before it. Slurm drains a node whose
# prolog fails, so this one never does, and it asks neither Slurm nor anything that could hang.
#
# It has profd running, and notes which job has which GPU in the folder that dcgm-exporter reads
# (--hpc-job-mapping-dir): its series then carry hpc_job as profd's do, and join.
set -u

mapping_dir=${PROFD_HPC_JOB_DIR:-/run/hpc-job-mapping}

if [[ -x /usr/bin/systemctl ]]; then
  /usr/bin/timeout 1 /usr/bin/systemctl start --no-block profd.service >/dev/null 2>&1 || true
fi

# "0,2-3" as "0 2 3"
expand() {
  local part first last
  for part in ${1//,/ }; do
    first=${part%%-*}
    last=${part##*-}
    [[ $first =~ ^[0-9]{1,3}$ && $last =~ ^[0-9]{1,3}$ ]] || continue
    for ((; first <= last; ++first)); do
      echo "$first"
    done
  done
}

job=${SLURM_JOB_ID:-}
if [[ $job =~ ^[0-9]+$ && -n ${SLURM_JOB_GPUS:-} ]] && mkdir -p "$mapping_dir" 2>/dev/null; then
  for gpu in $(expand "$SLURM_JOB_GPUS"); do
    grep -qx "$job" "$mapping_dir/$gpu" 2>/dev/null ||
      echo "$job" >>"$mapping_dir/$gpu" 2>/dev/null
  done
fi
exit 0
