#!/bin/bash
# Epilog= of slurm.conf: takes the job out of what prolog.sh noted. Like that it never fails.
#
# profd itself needs no epilog: it sees a job's processes end, and finishes their captures.
set -u

mapping_dir=${PROFD_HPC_JOB_DIR:-/run/hpc-job-mapping}

job=${SLURM_JOB_ID:-}
if [[ $job =~ ^[0-9]+$ && -d $mapping_dir ]]; then
  for file in "$mapping_dir"/*; do
    [[ -f $file && ! -L $file ]] || continue
    grep -qx "$job" "$file" 2>/dev/null || continue
    rest=$(grep -vx "$job" "$file" 2>/dev/null)
    if [[ -n $rest ]]; then
      printf '%s\n' "$rest" >"$file" 2>/dev/null
    else
      rm -f "$file" 2>/dev/null
    fi
  done
fi
exit 0
