#!/usr/bin/env bash
# Every man page is one that man and mandoc format without a complaint.
set -euo pipefail
. "$(dirname "$0")/skip.sh"

pages=(deploy/man/*.8 "$PROFD_BUILD_DIR/share/profctl.1")

checked=0
if command -v mandoc >/dev/null; then
  checked=1
  mandoc -T lint -W warning "${pages[@]}"
fi
if command -v man >/dev/null && command -v groff >/dev/null; then
  checked=1
  for page in "${pages[@]}"; do
    complaints=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null)
    [[ -z $complaints ]] || { echo "$page: $complaints"; exit 1; }
  done
fi
[[ $checked -eq 1 ]] || skip "neither mandoc nor man with groff is installed"
