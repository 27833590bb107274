#!/usr/bin/env bash
# phases.sh counts what tests/run.sh reports, retries what failed, and keeps its time limit. A
# script that prints ctest's lines takes the place of tests/run.sh.
set -uo pipefail
readonly source_dir=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tests"
cd "$scratch" || exit 1

# Tests whose name has "always" fail; those with "once" fail unless they run alone (-j 1).
cat >tests/run.sh <<'FAKE'
#!/usr/bin/env bash
alone=0 pattern=.
while [[ $# -gt 0 ]]; do
  case $1 in
    -j) alone=1; shift ;;
    -R) pattern=$2; shift ;;
    --names) names=$2; shift ;;
    --broken-build) echo "ninja: build stopped"; exit 1 ;;
    --sleep) sleep "$2"; shift ;;
    --no-install) ;;
    *) echo "unknown argument '$1'"; exit 2 ;;
  esac
  shift
done
names=${names:-x.once} failed=0 n=0
while read -r name; do
  [[ $name =~ $pattern ]] || continue
  n=$((n + 1)) verdict="   Passed"
  if [[ $name == *always* || ($name == *once* && $alone -eq 0) ]]; then
    verdict="***Failed" failed=$((failed + 1))
  elif [[ $name == *crashes* ]]; then
    verdict="Subprocess aborted***Exception:" failed=$((failed + 1))
  elif [[ $name == *skips* ]]; then
    verdict="***Skipped"
  fi
  echo "  $n/9 Test #$n: $name ......$verdict    0.10 sec"
done < <(tr ';' '\n' <<<"$names")
echo "50% tests passed, $failed tests failed out of $n"
[[ $failed -eq 0 ]]
FAKE
chmod +x tests/run.sh

checks=0
# expect WHAT TEXT PATTERN
expect() {
  checks=$((checks + 1))
  grep -qE -- "$3" <<<"$2" || { printf '%s: no "%s" in:\n%s\n' "$1" "$3" "$2"; exit 1; }
}

# run COMMANDS: in a shell of its own, with phases.sh.
run() { bash -c "cd '$scratch' && . '$source_dir/tests/phases.sh' && $1; print_table" 2>&1; }

output=$(run "test_phase good --names 'a.b;c.skips'")
expect 'all pass' "$output" '^good +[0-9]+ +2  passed$'
expect 'all pass' "$output" '^2 passed, 0 failed$'

output=$(run "test_phase mixed --names 'a.b;x.once/1  # GetParam() = (1);y.z'; retry_failed_tests")
expect 'a flaky test' "$output" '^mixed +[0-9]+ +3  FLAKY$'
expect 'a flaky test' "$output" '^  x\.once/1  # GetParam\(\) = \(1\) \(mixed; '
expect 'a flaky test' "$output" '^3 passed, 0 failed$'

output=$(run "test_phase bare; retry_failed_tests")
expect 'a phase without arguments' "$output" '^bare +[0-9]+ +1  FLAKY$'

output=$(run "test_phase mixed --names 'a.b;x.once;y.always;z.crashes'; retry_failed_tests")
expect 'a failure beside a flaky test' "$output" '^mixed +[0-9]+ +4  FAILED$'
expect 'a failure beside a flaky test' "$output" '^2 passed, 2 failed$'

output=$(run "test_phase many --names 'a.once;b.once;c.once;d.once'; retry_failed_tests")
expect 'four flaky tests' "$output" '^4 passed, 1 failed$'

output=$(run "test_phase broken --broken-build; retry_failed_tests")
expect 'a build that fails' "$output" '^broken +[0-9]+ +0  FAILED$'
expect 'a build that fails' "$output" '^0 passed, 1 failed$'

output=$(run "phase one true; phase two false")
expect 'commands' "$output" '^1 passed, 1 failed$'

printf 'long 500\nshort 1\n' >durations
output=$(run "durations_file=durations; limit_s=100; optional phase long true; optional phase short true")
expect 'no time' "$output" '^long +0 +-  not run: no time$'
expect 'no time' "$output" '^1 passed, 0 failed$'

output=$(run "limit_s=1; is_optional=1; test_phase slow --names a.b --sleep 600")
expect 'stopped' "$output" '^slow +[0-9]+ +0  not run: stopped at the time limit$'
expect 'stopped' "$output" '^0 passed, 0 failed$'

echo "$checks checks passed"
