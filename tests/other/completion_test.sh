#!/usr/bin/env bash
# completion_test.sh bash|zsh|fish: that shell takes the completion that profctl writes for it, and
# expands nothing that a daemon sends.
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

# A profctl whose daemon is hostile; only the last candidate is one.
mkdir "$scratch/bin" "$scratch/home" "$scratch/run"
cat >"$scratch/bin/profctl" <<'STUB'
#!/bin/sh
printf '%s\n' '$(touch made)' '(touch made)' '`touch made`' 'a;touch made' "'a'" '"a"' 'a b' \
  '--output' '~' '*' '{a,b}' "$(printf 'a\tb')" "$(printf 'a\033[2J')" '$HOME' '' "$2-1"
STUB
chmod +x "$scratch/bin/profctl"
export PATH=$scratch/bin:$PATH HOME=$scratch/home XDG_CONFIG_HOME=$scratch/home
cd "$scratch/run"
case $shell in
  bash)
    offers=$(bash -c '
      . "$1"
      for words in "show" "trace --pid" "history --schedule" "ps --context"; do
        COMP_WORDS=(profctl $words "") COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
        _profctl profctl 2>/dev/null
        printf "%s\n" "${COMPREPLY[@]}"
      done' _ "$file")
    ;;
  zsh)
    # The completion system needs a terminal: only what it would be given is looked at.
    offers=$(zsh -f -c '
      compdef() { }
      compadd() { print -rl -- ${(P)2} }
      _files() { }
      _alternative() { eval ${1##*:} }
      _call_program() { shift; eval "$@" }
      . "$1"
      _profctl_captures
      for kind in pids schedules contexts; do _profctl_live $kind; done' _ "$file")
    ;;
  fish)
    # shellcheck disable=SC2016  # It is fish's.
    offers=$(fish --no-config -c '
      source $argv[1]
      for words in "show" "trace --pid" "history --schedule" "ps --context"
        complete -C "profctl $words " | string replace -r "\t.*" ""  # Without the description.
      end' "$file")
    ;;
esac
expected=$'ids-1\npids-1\nschedules-1\ncontexts-1'
if [[ $offers != "$expected" ]]; then
  printf 'offered:\n%s\n' "$offers" >&2
  exit 1
fi
if [[ -e made ]]; then
  echo "a candidate was run" >&2
  exit 1
fi
