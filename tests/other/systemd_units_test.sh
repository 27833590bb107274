#!/usr/bin/env bash
# systemd takes the units as they are written.
set -euo pipefail
. "$(dirname "$0")/skip.sh"
need systemd-analyze

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export XDG_RUNTIME_DIR="$scratch"  # the user's manager, which verify plays, needs one

# verify wants ExecStart= to exist: the units point at a stand-in.
for scope in system user; do
  folder=deploy/systemd
  [[ $scope == system ]] || folder=deploy/systemd/user
  mkdir "$scratch/$scope"
  for unit in "$folder"/*.service "$folder"/*.socket; do
    [[ -e $unit ]] || continue
    sed 's#/usr/bin/profd#/bin/true#; s#/usr/libexec/profd/profd-helper#/bin/true#; s#=profd$#=root#' "$unit" >"$scratch/$scope/$(basename "$unit")"
  done
  complaints=$(systemd-analyze verify --man=no "--$scope" "$scratch/$scope"/* 2>&1) ||
    { echo "$complaints"; exit 1; }
  # Complaints about units of the machine are not about ours.
  if grep -E 'profd' <<<"$complaints"; then exit 1; fi
done

# The units' exposure, as systemd counts it: at most 2.0 of 10 (lower is better).
for unit in profd.service profd-helper@.service; do
  exposure=$(systemd-analyze security --offline=true "deploy/systemd/$unit" |
    sed -nE 's/.*Overall exposure level for .*: ([0-9.]+) .*/\1/p')
  [[ -n $exposure ]] || { echo "SKIP: systemd-analyze security has no --offline"; exit 77; }
  echo "$unit: exposure $exposure"
  awk -v found="$exposure" 'BEGIN { exit !(found <= 2.0) }' ||
    { echo "$unit: exposure $exposure, more than 2.0"; exit 1; }
done
for gone in CAP_CHOWN CAP_PERFMON; do
  if grep -rn "$gone" deploy/systemd; then echo "$gone is not needed"; exit 1; fi
done
