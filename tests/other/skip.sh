# shellcheck shell=bash
# Sourced by the tests in this folder.

# skip REASON: ends the test in the way that ctest and tests/run.sh know for a skip.
skip() {
  echo "SKIP: $*"
  exit 77
}

# need COMMAND...: skips unless every command is there.
need() {
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || skip "$command is not installed"
  done
}
