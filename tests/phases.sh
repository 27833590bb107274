# shellcheck shell=bash
# Phases of a test run, their time limit, and one table of them all. For bash scripts to source:
# .ci/run and tests/full.sh.
#
#   phase NAME COMMAND...         runs a command; its exit status is the verdict
#   test_phase NAME ARGUMENTS...  runs tests/run.sh; the tests that ctest counts are the verdict
#   optional phase NAME ...       the same, or "not run: no time" if it would not end in time
#   retry_failed_tests            runs each test that failed since the last call once more, alone
#   print_table                   prints all phases and "N passed, N failed"; $failed is the verdict
#
# A phase that fails does not keep the others from running. Logs are in $logs.
#
# Variables for the caller to set:
#   limit_s          optional phases are not begun, and are stopped, this long after the start
#   durations_file   lines "NAME SECONDS": how long a phase took when it was last measured; one that
#                    is not there counts as half an hour

logs=build/ci
limit_s=0
durations_file=
# Flaky tests are defects, but a few of them do not reject a change.
readonly most_flaky_tests=3
readonly unmeasured_s=1800
# The folders whose code has threads: others have nothing that ThreadSanitizer would find.
# shellcheck disable=SC2034  # For the callers.
readonly threaded="base quota capture schedule ingest store http metrics worker privilege rpc client_lib cupti torch"

names=() seconds=() counts=() verdicts=()
passed=0
failed=0
flaky=()
# Of each test that failed: its name, its phase, and (by phase) the arguments of tests/run.sh.
failed_tests=() failed_in=()
declare -A arguments_of=() row_of=()
is_optional=0

# Seconds until the limit; a large number without one.
remaining_s() {
  if [[ $limit_s -eq 0 ]]; then echo 1000000; else echo $((limit_s - SECONDS)); fi
}

expected_s() {
  local name known
  [[ -r $durations_file ]] || return 0
  while read -r name known _; do
    [[ $name != "$1" ]] || echo "$known"
  done <"$durations_file"
}

add_row() {
  row_of[$1]=${#names[@]}
  names+=("$1") seconds+=("$2") counts+=("$3") verdicts+=("$4")
  [[ $4 == not\ run* ]] || echo "$1 $2" >>"$logs/durations"
}

optional() {
  local name=$2 expected
  expected=$(expected_s "$name")
  if [[ ${expected:-$unmeasured_s} -gt $(remaining_s) ]]; then
    add_row "$name" 0 '-' 'not run: no time'
    return 0
  fi
  is_optional=1
  "$@"
  is_optional=0
}

# Runs a command; an optional program (not a shell function) ends at the limit with status 124.
run_limited() {
  if [[ $is_optional -eq 1 && $limit_s -gt 0 && $(type -t "$1") == file ]]; then
    timeout --kill-after=30 "$(remaining_s)" "$@"
  else
    "$@"
  fi
}

phase() {
  local name=$1 start=$SECONDS status=0
  shift
  printf '\n==== %s\n' "$name"
  mkdir -p "$logs"
  run_limited "$@" 2>&1 | tee "$logs/$name.log"
  status=${PIPESTATUS[0]}
  if [[ $status -eq 0 ]]; then
    passed=$((passed + 1))
    add_row "$name" $((SECONDS - start)) '-' passed
  elif [[ $status -eq 124 && $is_optional -eq 1 ]]; then
    add_row "$name" $((SECONDS - start)) '-' 'not run: stopped at the time limit'
  else
    failed=$((failed + 1))
    add_row "$name" $((SECONDS - start)) '-' FAILED
  fi
}

test_phase() {
  local name=$1 start=$SECONDS status=0 log line
  shift
  printf '\n==== %s\n' "$name"
  mkdir -p "$logs"
  log=$logs/$name.log
  run_limited tests/run.sh "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  # Without arguments, printf would print one that is empty.
  arguments_of[$name]=
  [[ $# -eq 0 ]] || arguments_of[$name]=$(printf '%q ' "$@")

  # Each test that ended is counted, also if the phase was stopped.
  local -a broken=()
  mapfile -t broken < <(names_of_failed_tests "$log")
  local good
  good=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*(Passed|\*\*\*Skipped) ' "$log")
  line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$log" | tail -n 1)
  local verdict=passed
  if [[ ${#broken[@]} -gt 0 ]]; then
    verdict=FAILED
  elif [[ $status -eq 124 && $is_optional -eq 1 ]]; then
    verdict='not run: stopped at the time limit'
  elif [[ $status -ne 0 || -z $line ]]; then
    # The build failed, or ctest did.
    verdict=FAILED
    failed=$((failed + 1))
  fi
  local test
  for test in "${broken[@]}"; do
    failed_tests+=("$test")
    failed_in+=("$name")
  done
  passed=$((passed + good))
  failed=$((failed + ${#broken[@]}))
  add_row "$name" $((SECONDS - start)) "$((good + ${#broken[@]}))" "$verdict"
}

# Prints the names of the tests that failed, timed out, or could not run, from ctest's output.
names_of_failed_tests() {
  sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: (.*[^. ]) +\.\.+[A-Za-z ]*\*\*\*(Failed|Timeout|Exception|Not Run).*$/\1/p' \
    "$1" | sort -u
}

# A failed test runs once more, alone. If it passes, it is flaky: named, and no longer a failure.
retry_failed_tests() {
  local i name test pattern row
  for i in "${!failed_tests[@]}"; do
    name=${failed_in[$i]} test=${failed_tests[$i]}
    # ctest takes a regex; names of parametrized tests have characters that mean something there.
    pattern="^${test//[^A-Za-z0-9_ ]/.}\$"
    printf '\n==== once more, alone: %s (%s)\n' "$test" "$name"
    local -a arguments=()
    eval "arguments=(${arguments_of[$name]})"
    if tests/run.sh "${arguments[@]}" --no-install -j 1 -R "$pattern"; then
      flaky+=("$test ($name; $logs/$name.log)")
      failed=$((failed - 1))
      passed=$((passed + 1))
      row=${row_of[$name]}
      verdicts[row]=FLAKY
    fi
  done
  # Another test of the phase may have failed both times.
  for i in "${!failed_tests[@]}"; do
    name=${failed_in[$i]}
    row=${row_of[$name]}
    [[ " ${flaky[*]-}" == *" ${failed_tests[$i]} ($name; "* ]] || verdicts[row]=FAILED
  done
  failed_tests=() failed_in=()
}

print_table() {
  local i
  if [[ ${#flaky[@]} -gt $most_flaky_tests ]]; then failed=$((failed + 1)); fi
  printf '\n%-22s %7s %7s  %s\n' phase seconds tests verdict
  for i in "${!names[@]}"; do
    printf '%-22s %7d %7s  %s\n' "${names[$i]}" "${seconds[$i]}" "${counts[$i]}" "${verdicts[$i]}"
  done
  printf '%-22s %7d\n' 'in all' "$SECONDS"
  for i in "${!flaky[@]}"; do
    [[ $i -gt 0 ]] || printf '\nFLAKY: failed, then passed alone (more than %d fail the run):\n' "$most_flaky_tests"
    printf '  %s\n' "${flaky[$i]}"
  done
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
}

# ---- Phases that both scripts have

check_format() {
  clang-format --version
  git ls-files -- '*.h' '*.hpp' '*.cc' '*.c' | xargs -r clang-format --dry-run -Werror
}

check_style() {
  local status=0
  python3 tests/layering_test.py || status=1
  python3 tests/description_test.py || status=1
  python3 tests/style_test.py || status=1
  return $status
}

# Without one, the tests that need it skip and say so.
download_torch() {
  local python=${PROFD_CURRENT_TORCH_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/profd/torch/bin/python}
  [[ -x $python ]] || tests/client_lib/torch/current_torch.sh || echo "there is no current torch for tests/client_lib/torch"
}
