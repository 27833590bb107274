#!/usr/bin/env bash
# Every shell script of the tree passes shellcheck.
set -euo pipefail
. "$(dirname "$0")/skip.sh"
need shellcheck git

mapfile -t scripts < <(git ls-files --cached --others --exclude-standard | while read -r file; do
  [[ -f $file ]] && head -c 64 "$file" | head -n 1 | grep -qE '^#!.*\b(ba)?sh$' && echo "$file"
done || true)
[[ ${#scripts[@]} -ge 4 ]] || { echo "only ${#scripts[@]} scripts found"; exit 1; }
printf '%s\n' "${scripts[@]}"
shellcheck -x -e SC1091 "${scripts[@]}"
