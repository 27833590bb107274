#!/usr/bin/env bash
# A cluster on one machine, and every command for many nodes:
#
#   deploy/cluster-demo.sh
#
# Starts four daemons as four nodes, which serve by mutual TLS on loopback, with certificates and an
# access policy made for the occasion, and eight ranks of a data-parallel training, two on each node.
# One of the ranks is slower than the others. Then it calls profctl as a user would from a
# workstation: prints each command before its output, and ends with an error if one does what it
# should not.
#
# Builds what is missing in build/release first. All it starts and writes is gone at the end, and
# a profd that this machine runs already is not touched. Progress is on stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly root=$PWD
readonly bin="$root/build/release/bin"
readonly nodes=(node1 node2 node3 node4)
readonly ranks=8
readonly slow_rank=5
readonly job=demo-42

run_dir=
pids=()

say() { echo "cluster-demo: $*" >&2; }

fail() {
  say "$*"
  local log
  for log in "$run_dir"/*.log; do
    [[ -s $log ]] || continue
    say "the last lines of ${log##*/}:"
    tail -n 15 "$log" >&2
  done
  exit 1
}

clean_up() {
  local pid
  # Ranks first: they were started last.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait "$pid" 2>/dev/null || true
  done
  [[ -z $run_dir ]] || rm -rf "$run_dir"
}

# DESCRIPTION COMMAND...: until the command succeeds, for at most 60 s.
wait_until() {
  local what=$1
  shift
  local i
  for ((i = 0; i < 600; i++)); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  fail "$what: it never came"
}

build() {
  deploy/install_packages.sh build quickstart
  [[ -e build/release/CMakeCache.txt ]] || cmake --preset release -DPROFD_BUILD_TESTS=OFF >&2
  cmake --build build/release --target profd profd-report profctl profd_client >&2
}

port_of() {
  sed -nE 's/.*listening .*on 127\.0\.0\.1:([0-9]+) \(mutual TLS.*/\1/p' "$run_dir/$1.log" | tail -n 1
}

has_port() { [[ -n $(port_of "$1") ]]; }

# alice stands for the user who runs this, and so may do with the ranks what their owner may; bob may
# look on.
make_certificates() {
  local -a arguments=()
  local node
  for node in "${nodes[@]}"; do arguments+=(--node "$node,127.0.0.1"); done
  deploy/pki/make_test_pki.sh "$run_dir/pki" "${arguments[@]}" --user alice --user bob >/dev/null
  cat >"$run_dir/policy" <<POLICY
map    cn:alice  uid:$UID
allow  cn:alice  all   all
allow  cn:bob    list  all
POLICY
}

start_nodes() {
  local node
  for node in "${nodes[@]}"; do
    mkdir -m 0700 "$run_dir/$node"
    "$bin/profd" --user root --node-name "$node" --data-dir "$run_dir/$node/data" --socket-dir "$run_dir/$node/run" \
      --listen 127.0.0.1:0 --tls-cert "$run_dir/pki/$node.crt" --tls-key "$run_dir/pki/$node.key" \
      --tls-ca "$run_dir/pki/ca.crt" --policy-file "$run_dir/policy" >"$run_dir/$node.log" 2>&1 </dev/null &
    pids+=($!)
  done
  for node in "${nodes[@]}"; do wait_until "$node serves" has_port "$node"; done
  say "${#nodes[@]} daemons serve"
}

start_ranks() {
  local rank slow_ms
  for ((rank = 0; rank < ranks; rank++)); do
    slow_ms=0
    [[ $rank -ne $slow_rank ]] || slow_ms=4
    env RANK=$rank WORLD_SIZE=$ranks PROFD_JOB=$job PYTHONPATH="$root/client_lib/python" \
      PROFD_SOCKET_DIR="$run_dir/${nodes[rank / 2]}/run" \
      PROFD_CLIENT_LIB="$root/build/release/lib/libprofd_client.so" \
      /usr/bin/python3 deploy/demo/ranks_train.py --meet "$run_dir/meet" --step-ms 10 \
      --slow-ms $slow_ms >"$run_dir/rank$rank.log" 2>&1 </dev/null &
    pids+=($!)
  done
}

all_ranks_train() {
  "$bin/profctl" ps --json | /usr/bin/python3 -c '
import json, sys
rows = json.load(sys.stdin)["targets"]
sys.exit(sum(row["step_mark_count"] > 10 for row in rows) != int(sys.argv[1]))' "$ranks"
}

# The value at a path of keys in the JSON on stdin.
json_at() {
  /usr/bin/python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1:]:
    value = value[int(key) if key.lstrip("-").isdigit() else key]
print(value)' "$@"
}

# What a user would type, and what comes of it.
show() {
  printf '\n$ profctl'
  printf ' %q' "$@"
  printf '\n'
  "$bin/profctl" "$@" || fail "profctl $1 ended with exit code $?"
}

# EXIT_CODE ARGUMENTS...: what has to end with that code.
show_refusal() {
  local wanted=$1 code=0
  shift
  printf '\n$ profctl'
  printf ' %q' "$@"
  printf '\n'
  "$bin/profctl" "$@" 2>&1 || code=$?
  [[ $code -eq $wanted ]] || fail "profctl ended with exit code $code, not $wanted"
}

add_context() {
  local user=$1 list='' node
  shift
  for node in "${nodes[@]}"; do
    list+="${list:+,}$node=127.0.0.1:$(port_of "$node")"
  done
  show context add "$user" --nodes "$list" --tls-ca "$run_dir/pki/ca.crt" \
    --tls-cert "$run_dir/pki/$user.crt" --tls-key "$run_dir/pki/$user.key" "$@"
}

# Of the nodes: what is there.
look_around() {
  add_context alice --use
  add_context bob
  show context list
  show node
  wait_until "all ranks train" all_ranks_train
  show ps --job "$job"
}

# The same steps of every rank.
capture_job() {
  show trace --job "$job" --steps 5
  group=$("$bin/profctl" captures --limit 1 --json | json_at captures 0 group)
  show captures --group "$group"
  show show "$group"
  show ops "$group"
  show steps "$group"
  show stragglers "$group"
  show export "$group" -o "$run_dir/job.json.gz"
  # On the node that stays to the end.
  one=$("$bin/profctl" captures --group "$group" --json | /usr/bin/python3 -c '
import json, sys
print(next(row["id"] for row in json.load(sys.stdin)["captures"] if row["node"] == "node1"))')
  show fetch "$one" -o "$run_dir/one.profd"
  show ops "$run_dir/one.profd"
}

has_windows() {
  "$bin/profctl" schedule history "$1" --json | /usr/bin/python3 -c '
import json, sys
sys.exit(not any(row["outcome"] == "captured" for row in json.load(sys.stdin)["windows"]))'
}

# Samples, taken by the daemons themselves.
sample() {
  show schedule create --every 10s --steps 2 --job "$job"
  local schedule
  schedule=$("$bin/profctl" schedule list --json | json_at schedules 0 id)
  wait_until "a window of the schedule" has_windows "$schedule"
  show schedule list
  show schedule show "$schedule"
  show schedule history "$schedule"
  show schedule pause "$schedule"
  show schedule resume "$schedule"
  show schedule delete "$schedule"
}

# Who may do what.
ask_for_too_much() {
  show_refusal 5 --context bob trace --job "$job" --steps 2
  show node --forbid-captures "maintenance until noon"
  show_refusal 5 trace --job "$job" --steps 2
  show node --allow-captures
  show audit --limit 8
}

lose_a_node() {
  kill "${pids[3]}"
  wait "${pids[3]}" 2>/dev/null || true
  show_refusal 4 ps
  show delete "$one"
}

main() {
  if [[ $# -gt 0 ]]; then
    sed -n '2,/^set /s/^# \{0,1\}//p' "$root/deploy/cluster-demo.sh" | sed '$d'
    [[ $1 == -h || $1 == --help ]] && exit 0
    exit 2
  fi
  build
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Short, because a socket's path must fit into 108 bytes.
  run_dir=$(mktemp -d /tmp/profd-cluster.XXXXXX)
  export XDG_CONFIG_HOME=$run_dir/config
  unset PROFD_ADDRESS PROFD_CONTEXT PROFD_SOCKET_DIR PROFD_DISABLE PROFD_TLS_CA PROFD_TLS_CERT PROFD_TLS_KEY
  make_certificates
  start_nodes
  start_ranks
  look_around
  capture_job
  sample
  show history --step-time --since 1h
  ask_for_too_much
  lose_a_node
  say "that was all of it"
}

main "$@"
