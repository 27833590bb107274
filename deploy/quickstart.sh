#!/usr/bin/env bash
# From a checkout to a first capture, on Debian 12, with or without a GPU:
#
#   deploy/quickstart.sh          as root, as an ordinary user who has sudo, or through sudo
#
# Installs the packages that are missing, builds, starts a profd of its own and a real training
# process, captures five of its training steps, and prints the operator table, the kernels and the
# memory timeline. Where there is no GPU, one made of software stands in, and whatever comes from
# it says "simulated". The last line on stdout is the path of a trace that stays; it opens in
# https://ui.perfetto.dev and in chrome://tracing. Everything else it started or wrote is gone
# at the end, and a profd that this machine runs already is not touched. Progress is on stderr.
#
# Started through sudo it installs as root, and does the rest as the user who called sudo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly root=$PWD
readonly steps=5
readonly bin="$root/build/release/bin"

daemon_pid=
demo_pid=
run_dir=

say() { echo "quickstart: $*" >&2; }

fail() {
  say "$*"
  local log
  for log in profd demo; do
    if [[ -n $run_dir && -s $run_dir/$log.log ]]; then
      say "the last lines of $log:"
      tail -n 40 "$run_dir/$log.log" >&2
    fi
  done
  exit 1
}

stop() {
  local pid=$1
  [[ -n $pid ]] || return 0
  kill "$pid" 2>/dev/null || true
  # Ten seconds for an orderly end, then none.
  local i
  for ((i = 0; i < 100; i++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

clean_up() {
  stop "$demo_pid"
  stop "$daemon_pid"
  [[ -z $run_dir ]] || rm -rf "$run_dir"
}

# What root builds in a user's checkout, that user cannot build again.
continue_as_caller() {
  [[ $EUID -eq 0 && ${SUDO_USER:-root} != root ]] || return 0
  local home folder
  home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
  for folder in "$root" "$root/build" "$root/build/release"; do
    if [[ -e $folder ]] && ! runuser -u "$SUDO_USER" -- test -w "$folder"; then
      say "$SUDO_USER cannot write to $folder; going on as root"
      return 0
    fi
  done
  exec runuser -u "$SUDO_USER" -- env -u SUDO_USER -u XDG_STATE_HOME -u XDG_RUNTIME_DIR \
    HOME="$home" USER="$SUDO_USER" LOGNAME="$SUDO_USER" "$root/deploy/quickstart.sh"
}

build() {
  say "building (some minutes the first time, seconds after that)"
  # A tree that is there already keeps its settings; a new one needs no test packages.
  local -a settings=()
  [[ -e build/release/CMakeCache.txt ]] || settings=(-DPROFD_BUILD_TESTS=OFF)
  cmake --preset release "${settings[@]}" >&2
  cmake --build build/release -j "$(deploy/build_jobs.sh)" \
    --target profd profd-report profctl profd_client gpu_train gpu_program >&2
}

# Runs "$@" until it succeeds; for want of an event that a shell could wait for.
wait_until() {
  local what=$1 seconds=$2 pid=$3
  shift 3
  local deadline=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || fail "$what: process $pid ended"
    ((SECONDS < deadline)) || fail "$what: not within $seconds s"
    sleep 0.1
  done
}

demo_marks_steps() {
  "$bin/profctl" ps --json | /usr/bin/python3 -c '
import json, sys
pid = int(sys.argv[1])
sys.exit(not any(t["pid"] == pid and t["current_step"] >= 1
                 for t in json.load(sys.stdin)["targets"]))' "$demo_pid"
}

start_daemon() {
  mkdir -m 0700 "$run_dir/data" "$run_dir/run"
  export PROFD_SOCKET_DIR="$run_dir/run"
  unset PROFD_ADDRESS PROFD_DISABLE
  "$bin/profd" --user root --data-dir "$run_dir/data" --socket-dir "$run_dir/run" \
    >"$run_dir/profd.log" 2>&1 </dev/null &
  daemon_pid=$!
  wait_until "profd starts to serve" 30 "$daemon_pid" "$bin/profctl" node --json
  say "profd runs (pid $daemon_pid)"
}

start_demo() {
  if "$root/build/release/tests/bin/gpu_program" --probe 2>/dev/null; then
    say "there is a GPU: the training process is a CUDA program"
    "$root/build/release/tests/bin/gpu_program" >"$run_dir/demo.log" 2>&1 </dev/null &
  else
    say "there is no GPU: the training process has a simulated one"
    "$bin/gpu_train" --steps 0 --step-ms 20 >"$run_dir/demo.log" 2>&1 </dev/null &
  fi
  demo_pid=$!
  wait_until "the training process marks its steps" 60 "$demo_pid" demo_marks_steps
  say "a training process runs (pid $demo_pid)"
}

# A place that is still there when the machine has been restarted; failing that, one in /tmp.
trace_directory() {
  local state=${XDG_STATE_HOME:-${HOME:-/nonexistent}/.local/state}/profd-quickstart
  if (umask 077 && mkdir -p "$state") 2>/dev/null && [[ -w $state ]]; then
    echo "$state"
  else
    mktemp -d "${TMPDIR:-/tmp}/profd-quickstart-traces.XXXXXX"
  fi
}

capture() {
  local trace
  trace=$(trace_directory)/trace-$(date -u +%Y%m%dT%H%M%SZ)-$$.json.gz
  say "profctl trace --pid $demo_pid --steps $steps -o $trace"
  "$bin/profctl" trace --pid "$demo_pid" --steps "$steps" -o "$trace" ||
    fail "profctl trace ended with exit code $?"
  local id
  id=$("$bin/profctl" captures --json |
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["captures"][0]["id"])') ||
    fail "profctl captures shows no capture"
  echo
  "$bin/profctl" kernels "$id" || fail "profctl kernels ended with exit code $?"
  echo
  "$bin/profctl" memory "$id" || fail "profctl memory ended with exit code $?"
  [[ -s $trace ]] || fail "$trace was not written"
  kill -0 "$demo_pid" 2>/dev/null || fail "the training process did not live through the capture"
  echo
  echo "The trace; open it in https://ui.perfetto.dev or chrome://tracing:"
  echo "$trace"
}

main() {
  if [[ $# -gt 0 ]]; then
    sed -n '2,/^set /s/^# \{0,1\}//p' deploy/quickstart.sh
    [[ $1 == -h || $1 == --help ]] && exit 0
    say "unknown argument '$1'"
    exit 2
  fi
  deploy/install_packages.sh build quickstart
  continue_as_caller
  build

  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Short, because a socket's path must fit into 108 bytes.
  run_dir=$(mktemp -d /tmp/profd-quickstart.XXXXXX)
  start_daemon
  start_demo
  capture
}

main "$@"
