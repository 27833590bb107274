#!/usr/bin/env bash
# completion_test.sh bash|zsh|fish: that shell takes the completion that profctl writes for it.
set -euo pipefail
. "$(dirname "$0")/skip.sh"
readonly shell=$1

need "$shell"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
file=$scratch/profctl.$shell
"$PROFD_BUILD_DIR/bin/profctl" completion "$shell" >"$file"
"$shell" -n "$file"
if [[ $shell == bash ]]; then
  # It defines what it registers, and completes the name of a command.
  bash -euo pipefail -c '
    . "$1"
    function_name=$(complete -p profctl | sed -n "s/.*-F \([^ ]*\).*/\1/p")
    COMP_WORDS=(profctl tra) COMP_CWORD=1 COMP_LINE="profctl tra" COMP_POINT=11 COMPREPLY=()
    set +eu
    "$function_name" profctl tra profctl
    printf "%s\n" "${COMPREPLY[@]}" | grep -qE "^trace *$"' _ "$file"
fi
