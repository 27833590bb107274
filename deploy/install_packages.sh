#!/usr/bin/env bash
# Installs the Debian 12 packages that profd is built with, those that are missing only.
#
#   deploy/install_packages.sh GROUP...
#
#   build        to build profd, profctl, the client library and the demo
#   quickstart   to run deploy/quickstart.sh
#   test         to run tests/run.sh
#   lint         clang with its sanitizers, clang-format, and clang-tidy: for .ci/run and preset fuzz
#   torch        to download a current PyTorch for tests/client_lib/torch
#   other        what tests/run.sh --all makes use of; a package that cannot be had is left out
#
# Runs apt-get as root, or through sudo. Does nothing, and asks for no right, when all is there.
# On a system without apt-get it names the packages to find the like of, and fails.
set -euo pipefail

packages_of() {
  case $1 in
    build) echo build-essential cmake ninja-build ccache pkg-config \
      protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev libabsl-dev \
      libsqlite3-dev libzstd-dev zlib1g-dev libisal-dev libsimdjson-dev libssl-dev libsystemd-dev \
      nlohmann-json3-dev prometheus-cpp-dev libmicrohttpd-dev libcurl4-openssl-dev libexpat1-dev libjs-chart.js ;;
    quickstart) echo python3 ;;
    test) echo git libgtest-dev libgmock-dev libbenchmark-dev openssl python3 python3-numpy python3-yaml ;;
    lint) echo git clang clang-format clang-tidy libclang-rt-dev ;;
    torch) echo python3-venv python3-pip ;;
    other) echo shellcheck man-db mandoc zsh fish python3-torch python3-pandas python3-grpcio \
      python3-protobuf python3-venv python3-setuptools python3-wheel prometheus \
      slurmctld slurmd slurm-client munge chromium chromium-driver python3-selenium \
      musl-tools libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 heaptrack g++-aarch64-linux-gnu qemu-user ;;
    *)
      echo "install_packages: no group '$1'; the groups are build, quickstart, test, lint, torch, other" >&2
      exit 2
      ;;
  esac
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Chatter goes to stderr: the callers' stdout belongs to their results.
apt() {
  local -a prefix=()
  [[ $EUID -eq 0 ]] || prefix=(sudo)
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null >&2
}

main() {
  if [[ $# -eq 0 ]]; then
    echo "usage: deploy/install_packages.sh build|quickstart|test|lint|other ..." >&2
    exit 2
  fi
  local group package optional=1
  local -a wanted=() missing=()
  for group in "$@"; do
    [[ $group == other ]] || optional=0
    # In its own statement, so that an unknown group ends the script.
    local list
    list=$(packages_of "$group")
    read -r -a list <<<"$list"
    wanted+=("${list[@]}")
  done
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "install_packages: this is not Debian; it needs the like of: ${wanted[*]}" >&2
    exit 1
  fi
  for package in "${wanted[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  if [[ $EUID -ne 0 ]] && ! command -v sudo >/dev/null; then
    echo "install_packages: neither root nor sudo here; as root, run:" \
      "apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "install_packages: installing ${missing[*]}" >&2
  if ! apt update; then
    echo "install_packages: apt-get update failed; trying with the lists that are there" >&2
  fi
  if [[ $optional -eq 1 ]]; then
    for package in "${missing[@]}"; do
      apt install --no-install-recommends "$package" ||
        echo "install_packages: going on without $package" >&2
    done
    return 0
  fi
  if ! apt install --no-install-recommends "${missing[@]}"; then
    echo "install_packages: could not install ${missing[*]}; see apt-get's message above" >&2
    exit 1
  fi
}

main "$@"
