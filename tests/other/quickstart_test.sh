#!/usr/bin/env bash
# deploy/quickstart.sh keeps its promise twice in a row: the operator table, the memory timeline,
# and a trace that stays and is whole; and it leaves no process and no socket behind.
set -euo pipefail
. "$(dirname "$0")/skip.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_STATE_HOME="$scratch"

for attempt in first second; do
  deploy/quickstart.sh >"$scratch/stdout" 2>"$scratch/stderr" </dev/null ||
    { cat "$scratch/stdout" "$scratch/stderr"; exit 1; }
  grep -q 'Self CPU' "$scratch/stdout" ||
    { echo "$attempt run: no operator table"; cat "$scratch/stdout"; exit 1; }
  trace=$(tail -n 1 "$scratch/stdout")
  [[ -s $trace ]] || { echo "$attempt run: no trace at '$trace'"; exit 1; }
  gzip --test "$trace"
  zcat "$trace" | /usr/bin/python3 -c '
import json, sys
events = json.load(sys.stdin)["traceEvents"]
steps = {e["name"] for e in events if e.get("name", "").startswith("ProfilerStep#")}
assert len(steps) == 5, sorted(steps)'
  if pgrep -f "$(pwd)/build/release/bin/(profd|gpu_train) .*profd-quickstart"; then
    echo "$attempt run: left a process behind"
    exit 1
  fi
done
