#!/usr/bin/env bash
# Each fuzzer of tests/fuzz survives a bounded number of inputs, built by clang with libFuzzer.
# Skips if there is no fuzz tree, since building one takes minutes.
#
# PROFD_FUZZ_SECONDS=S   instead of 5,000 inputs or 15 s: S seconds for each fuzzer
set -euo pipefail
. "$(dirname "$0")/skip.sh"
[[ -e tests/fuzz/CMakeLists.txt ]] || skip "there are no fuzzers in the tree"
need clang clang++

readonly build=build/fuzz
bounds=(-runs=5000 -max_total_time=15)
[[ -z ${PROFD_FUZZ_SECONDS:-} ]] || bounds=("-max_total_time=$PROFD_FUZZ_SECONDS")
[[ -e $build/build.ninja ]] || skip "nothing is built with libFuzzer: cmake --preset fuzz && cmake --build $build"
mapfile -t fuzzers < <(ninja -C "$build" -t targets all |
  sed -nE 's/^([A-Za-z0-9_]+_fuzzer): phony$/\1/p' | grep -v '^cmake_' | sort -u)
[[ ${#fuzzers[@]} -gt 0 ]] || { echo "no target is named *_fuzzer"; exit 1; }
cmake --build "$build" -j 2 --target profd_fuzzers

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for fuzzer in "${fuzzers[@]}"; do
  binary=$(find "$build" -name "$fuzzer" -type f -perm -u+x | head -n 1)
  mkdir "$scratch/$fuzzer"
  corpus=tests/fuzz/corpus/${fuzzer%_fuzzer}
  [[ ! -d $corpus ]] || cp "$corpus"/* "$scratch/$fuzzer"
  echo "== $fuzzer"
  "$binary" "${bounds[@]}" -seed=1 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$scratch/" "$scratch/$fuzzer" 2>"$scratch/log" ||
    { tail -n 60 "$scratch/log"; exit 1; }
  grep 'number_of_executed_units' "$scratch/log"
done
