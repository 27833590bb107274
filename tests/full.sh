#!/usr/bin/env bash
# Runs everything, without a limit of time: what a release needs. Takes hours on two cores. Writes
# tests/FULL_RUN.md: commit, date, machine, and the table of phases.
#
#   tests/full.sh [--fuzz-seconds S]      S: CPU time for each fuzzer (default: 600)
#
#   format, style, tidy   the whole tree
#   release               tests/run.sh --all, with a current PyTorch
#   asan, tsan            all tests with ASan and UBSan; those of folders with threads with TSan
#   campaign, truth       the long forms of tests/e2e/target_campaign and tests/truth
#   stops, sessions       500 stops of a busy profd; 200 hostile sessions with a PyTorch job
#   coordinators          profctl killed at 20 moments while it prepares a group of processes
#   chaos                 48 rounds of captures on eight nodes in which a rank or a daemon dies or is late
#   attacks               calls of other users under every attack of tests/bench/attack_bench.py
#   aarch64               the client library below qemu-user, with every version of the simulated CUPTI
#   fuzz                  the clang build with its thread-safety analysis, then each fuzzer
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null
# shellcheck source=tests/phases.sh
. tests/phases.sh
logs=build/full

fuzz_seconds=600
while [[ $# -gt 0 ]]; do
  case $1 in
    --fuzz-seconds)
      [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "full.sh: --fuzz-seconds: invalid value '${2:-}'" >&2; exit 2; }
      fuzz_seconds=$2
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' tests/full.sh | sed '$d'
      exit 0
      ;;
    *)
      echo "full.sh: unknown argument '$1'" >&2
      exit 2
      ;;
  esac
  shift
done

build_with_clang() {
  cmake --preset fuzz && cmake --build build/fuzz -j "$(deploy/build_jobs.sh)" \
    --target profd profctl profd_client profd_fuzzers
}
run_fuzzers() { PROFD_FUZZ_SECONDS=$fuzz_seconds tests/other/fuzz_test.sh; }
empty_tree=$(git hash-object -t tree /dev/null)
export PROFD_BUILD_DIR=$PWD/build/release PROFD_SOURCE_DIR=$PWD

mkdir -p "$logs"
: >"$logs/durations"
deploy/install_packages.sh build test lint torch other || exit 1
phase format check_format
phase style check_style
phase download-torch download_torch
test_phase release --all
test_phase asan --preset asan
# shellcheck disable=SC2086  # A word each.
mapfile -t threaded_folders < <(printf -- '--folder\n%s\n' $threaded)
test_phase tsan --preset tsan "${threaded_folders[@]}"
phase tidy .ci/tidy "$empty_tree" 0
phase campaign python3 tests/e2e/target_campaign/target_campaign_test.py --runs 1000
phase stops env PROFD_LONG_STOPS=500 python3 tests/e2e/stop_test.py
phase coordinators env PROFD_KILLED_COORDINATORS=20 python3 tests/e2e/group_test.py \
  GroupTest.test_a_coordinator_that_is_killed_at_any_moment_leaves_nothing_armed
phase chaos env PROFD_CHAOS_ROUNDS=48 python3 tests/e2e/group_test.py GroupTest.test_chaos
phase orders env PROFD_LONG_ORDERS=20 build/release/tests/bin/schedule_test \
  --gtest_filter='Parts/ScheduleOrdersTest.*'
phase attacks python3 tests/bench/attack_bench.py
phase aarch64 env PROFD_LONG_AARCH64=1 python3 tests/other/aarch64_test.py
phase sessions env PROFD_LONG_HOSTILE_SESSIONS=200 \
  tests/client_lib/torch/with_torch.sh current python3 tests/client_lib/torch/hostile_test.py
phase stacks env PROFD_LONG_STACKS=1000 python3 tests/client_lib/python_stack/stacks_test.py
phase truth python3 tests/truth/run.py
phase clang build_with_clang
phase fuzz run_fuzzers
retry_failed_tests

table=$(print_table)
{
  echo "# The last full run"
  echo
  echo "\`tests/full.sh --fuzz-seconds $fuzz_seconds\`, commit $(git rev-parse --short HEAD), $(date +%Y-%m-%d), $(nproc) cores" \
    "of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)."
  echo
  echo '```'
  echo "$table"
  echo '```'
} >tests/FULL_RUN.md
echo "$table"
# print_table ran in a subshell, so its last line is the verdict.
[[ $(tail -n 1 <<<"$table") == *" 0 failed" ]]
