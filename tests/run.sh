#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. The last line is ctest's verdict.
#
#   tests/run.sh [--all] [--preset P] [--folder F]... [--label L] [-R REGEX]... [-j N] [--no-install]
#
#   --all          also the tests labelled `other`: they need software that is not installed
#                  here, and each skips saying what it missed
#   --preset P     build and test preset P of CMakePresets.json in build/P (default: release)
#   --folder F     build and run only the tests of the folder tests/F (store), or of the folder of the
#                  client library tests/client_lib/F (cupti, python, torch); may be repeated.
#                  client_lib is that folder without these three
#   --label L      only tests with the label L (unit, other, torch_current, ...)
#   -R REGEX       only tests whose name matches; may be repeated
#   -j N           jobs for building and testing (default: what cores and memory allow; of tests
#                  that wait more than they compute, up to three times as many)
#   --no-install   install nothing; a missing package is then an error of the build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' tests/run.sh; }

# ctest tells which tests did not run; this tells why, in the tests' own words.
print_skip_reasons() {
  local log=$1
  [[ -r $log ]] || return 0
  awk '
    /^[0-9]+\/[0-9]+ Testing: / { name = $3 }
    next_is_reason && NF && !/^SKIP: / { print "  " name ": " $0 }
    /^SKIP: / { print "  " name ": " substr($0, 7) }
    NF { next_is_reason = /: Skipped$/ }
  ' "$log"
}

# Prints the build targets that the tests of these folders need. Python tests start the programs.
targets_of() {
  local folder
  echo client_lib/all
  for folder in "$@"; do
    echo "tests/$folder/all"
    if grep -qs 'profd_python_test' "tests/$folder/CMakeLists.txt"; then
      printf '%s\n' daemon/all cli/all deploy/all
    fi
  done
}

main() {
  local preset=release all=0 install=1 jobs='' label=''
  local -a filters=() folders=()
  while [[ $# -gt 0 ]]; do
    case $1 in
      --all) all=1 ;;
      --no-install) install=0 ;;
      --preset | --folder | --label | -R | -j)
        if [[ $# -lt 2 ]]; then
          echo "tests/run.sh: $1 needs a value" >&2
          exit 2
        fi
        case $1 in
          --preset) preset=$2 ;;
          --folder)
            if [[ -e tests/$2/CMakeLists.txt ]]; then
              folders+=("$2")
            elif [[ -e tests/client_lib/$2/CMakeLists.txt ]]; then
              folders+=("client_lib/$2")
            else
              echo "tests/run.sh: --folder: there are no tests in 'tests/$2'" >&2
              exit 2
            fi
            ;;
          --label) label=$2 ;;
          -R) filters+=("$2") ;;
          -j) jobs=$2 ;;
        esac
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      *)
        echo "tests/run.sh: unknown argument '$1'" >&2
        usage >&2
        exit 2
        ;;
    esac
    shift
  done

  [[ $install -eq 0 ]] || deploy/install_packages.sh build test
  local test_jobs=$jobs
  [[ -n $jobs ]] || jobs=$(deploy/build_jobs.sh)
  # A test that computes counts as two: tests/CMakeLists.txt.
  [[ -n $test_jobs ]] || test_jobs=$((jobs * 3))
  cmake --preset "$preset" -DPROFD_BUILD_TESTS=ON
  local -a targets=()
  if [[ ${#folders[@]} -gt 0 ]]; then
    local target_list
    target_list=$(targets_of "${folders[@]}")
    mapfile -t targets <<<"$target_list"
    targets=(--target "${targets[@]}")
  fi
  cmake --build "build/$preset" -j "$jobs" ${targets[@]+"${targets[@]}"}

  local excluded='^(gpu|other)$'
  [[ $all -eq 0 ]] || excluded='^gpu$'
  local -a arguments=(--test-dir "build/$preset" -j "$test_jobs" --output-on-failure --no-tests=error
    --label-exclude "$excluded")
  # Several regexes of labels must all match.
  [[ -z $label ]] || arguments+=(--label-regex "^$label\$")
  if [[ ${#folders[@]} -gt 0 ]]; then
    arguments+=(--label-regex "^in:($(IFS='|'; echo "${folders[*]}"))\$")
  fi
  if [[ ${#filters[@]} -gt 0 ]]; then
    arguments+=(-R "$(IFS='|'; echo "${filters[*]}")")
  fi

  # GCC 12's ThreadSanitizer cannot place its shadow under more than 28 bits of randomisation.
  local -a launcher=()
  if [[ $preset == tsan && $(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0) -gt 28 ]]; then
    launcher=(setarch -R)
  fi
  local log="build/$preset/Testing/run.log" status=0
  mkdir -p "build/$preset/Testing"
  "${launcher[@]}" ctest "${arguments[@]}" 2>&1 | tee "$log" || status=$?
  local reasons
  reasons=$(print_skip_reasons "build/$preset/Testing/Temporary/LastTest.log")
  [[ -z $reasons ]] || printf '\nSkipped, and why:\n%s\n' "$reasons"
  printf '\n%s\n' "$(grep -E '^[0-9]+% tests passed' "$log" || echo 'ctest gave no verdict')"
  return "$status"
}

main "$@"
