#!/usr/bin/env bash
# Prints how many build jobs this machine takes: one per core, and 1.5 GB of free memory for
# each, which is what a translation unit that includes gRPC needs with a sanitizer.
set -euo pipefail

cores=$(nproc)
by_memory=$(awk '/^MemAvailable:/ {print int($2 / 1500000)}' /proc/meminfo)
jobs=$((by_memory < cores ? by_memory : cores))
echo $((jobs < 1 ? 1 : jobs))
