#!/usr/bin/env bash
# Validates profd on a machine with a GPU, in less than 9 minutes. Needs no network and builds nothing.
#
#   run_on_gpu.sh [--out DIR] [--phases LIST] [--resume FACTS] [--budget SECONDS]
#                 [--bundle DIR] [--standin]
#
#   --out DIR        where results go (default: $OUT, else gpu-results): facts.jsonl, summary.md, and
#                    archives, at most 8 files of at most 16 MiB
#   --phases LIST    comma-separated, instead of all (see below)
#   --resume FACTS   facts.jsonl of an earlier run: phases that it ended are not run again
#   --budget SECONDS end within this time (default: 530); what no longer fits is skipped and named
#   --bundle DIR     what tests/gpu/pack.sh made (default: the folder of this script if it is a
#                    bundle, else .gpu in the repository)
#   --standin        use the simulated GPU and the programs in $PROFD_BUILD_DIR (default:
#                    build/release): tests this script, and takes a minute
#
# Phases, with seconds on an H200. Together, four at a time, as none of them measures time (95 s):
#   inventory      versions, libraries, the machine (15)
#   tests          tests/gpu/gpu_test.py (15)
#   graphs         CUDA graphs: made before or after the attach, with and without GRAPH_TRACE, two
#                  sessions (25)
#   smoke          captures with each libcupti in each mode; their raw buffers (60)
#   replays        three captures in a row of a program with an older CUDA graph, each version (40)
#   order          torch.profiler before, during, and after a capture, and without one (55)
#   drain          captures of a program that is 0 to 5 s ahead of its GPU (45)
#   endings        exit, _exit, abort, SIGTERM, SIGKILL, fork: as without profd (55)
#   sessions       20 sessions of each libcupti while a thread launches: no kernel is lost (25)
#   finalize       sessions after cuptiFinalize(), with graphs made before and after it (25)
#   cupti_facts    what each libcupti answers, without profd (40)
#   jax            a JAX program (12)
# Then alone, one after another:
#   causes         trainings with known causes, and healthy ones: what their reports say (80)
#   torch          eager, sync, Triton, NCCL, CUDA graphs against torch.profiler; equal losses (50)
#   call_tax       ns per API call in each state of CUPTI: kinds, callbacks, finalized (20)
#   step_tax       step times of a host-bound training in the same states; CUPTI's settings (60)
#   host_cost      profd's modes and torch.profiler in one host-bound training (40)
#   detach         its steps before, during, and after captures, and after --gpu-detach (20)
#   cupti_sessions times of CUPTI's calls, and how long they stall a thread that launches (14)
#   overhead       ns per launch: none, loaded, light, default, full, after (35)
#   clock          timestamps against %globaltimer and the host (11)
#   torch_overhead step times of a GPU-bound training, and torch.profiler's (60)
#   enable_order   orders of CUPTI's calls: in which a thread that launches loses no kernel (45)
#
# The experiments alone, for a second call:
#   --phases sessions,finalize,call_tax,step_tax,host_cost,detach
#
# Exits with the number of broken invariants (at most 100). 125: it could not start. A phase that
# fails or runs out of time is a broken invariant, and does not stop the others.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
together="inventory tests graphs smoke replays order drain endings sessions finalize cupti_facts jax"
alone="causes torch call_tax step_tax host_cost detach cupti_sessions overhead clock torch_overhead enable_order"

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'; }
fail() {
  echo "run_on_gpu.sh: $*" >&2
  exit 125
}

out=${OUT:-gpu-results} phases='' resume='' budget=530 bundle='' standin=0
while [[ $# -gt 0 ]]; do
  case $1 in
    --out | --phases | --resume | --budget | --bundle)
      [[ $# -ge 2 ]] || fail "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --standin) standin=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown argument '$1'" ;;
  esac
  shift
done
[[ $budget =~ ^[0-9]+$ ]] || fail "--budget: invalid value '$budget' (a number of seconds)"
[[ -z $resume || -r $resume ]] || fail "--resume: cannot read '$resume'"
for phase in ${phases//,/ }; do
  [[ " $together $alone " == *" $phase "* ]] || fail "unknown phase '$phase' (see --help)"
done
deadline=$((SECONDS + budget))

mkdir -p "$out"
out=$(cd "$out" && pwd)
# Results grow here; packing puts what may leave the machine into $out.
work=$(mktemp -d)
running=()
# Only what this script started.
# shellcheck disable=SC2317  # The trap calls it.
clean_up() {
  local pid
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT

find_bundle() {
  if [[ -z $bundle ]]; then
    bundle=$here
    [[ -r $bundle/profd.tar.xz ]] || bundle=$here/../../.gpu
  fi
  [[ -r $bundle/profd.tar.xz ]] || fail "no bundle in '$bundle'; make one with tests/gpu/pack.sh"
  (cd "$bundle" && sha256sum --quiet -c sha256sums) || fail "the bundle in '$bundle' is damaged"
  mkdir "$work/profd"
  local archive
  for archive in "$bundle"/*.tar.xz; do tar -xJf "$archive" -C "$work/profd"; done
  export PROFD_BUILD_DIR=$work/profd PROFD_SOURCE_DIR=$work/profd
  scripts=$work/profd/tests/gpu
}

python=${PROFD_GPU_PYTHON:-python3}
if [[ $standin -eq 1 ]]; then
  export PROFD_SOURCE_DIR=${PROFD_SOURCE_DIR:-$(cd "$here/../.." && pwd)}
  export PROFD_BUILD_DIR=${PROFD_BUILD_DIR:-$PROFD_SOURCE_DIR/build/release}
  [[ -x $PROFD_BUILD_DIR/tests/bin/gpu_job ]] || fail "nothing is built in '$PROFD_BUILD_DIR'"
  scripts=$here
else
  find_bundle
fi
export PROFD_GPU_OUT=$work/out PROFD_GPU_STANDIN=$standin PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work/out/logs"
# Facts go to their final place at once: what is there survives whatever happens here.
facts=$out/facts.jsonl
if [[ -n $resume && ! $resume -ef $facts ]]; then cp "$resume" "$facts"; fi
[[ -n $resume || -n $phases ]] || : >"$facts"
touch "$facts"
ln -s "$facts" "$work/out/facts.jsonl"

fact() { printf '{"phase": "%s", "fact": "%s", %s}\n' "$1" "$2" "$3" >>"$facts"; }

# The most seconds that a phase may take.
limit_of() {
  case $1 in
    call_tax | detach | enable_order) echo 60 ;;
    inventory | host_cost | cupti_sessions | overhead | torch_overhead) echo 80 ;;
    sessions | finalize) echo 100 ;;
    smoke | replays | endings) echo 150 ;;
    causes) echo 240 ;;
    *) echo 120 ;;
  esac
}

has_ended() { [[ -n $resume ]] && grep -q "\"phase\": \"$1\", \"fact\": \"phase_ended\"" "$resume"; }

is_wanted() {
  [[ -z $phases || ",$phases," == *",$1,"* ]] && ! has_ended "$1"
}

run_phase() {
  local phase=$1 limit began status=0 script=gpu_phases.py
  case $phase in
    torch | order | torch_overhead | jax) script=gpu_frameworks.py ;;
    causes) script=gpu_causes.py ;;
    call_tax | step_tax | host_cost | detach | sessions | enable_order | finalize) script=gpu_costs.py ;;
  esac
  limit=$(limit_of "$phase")
  if ((limit > deadline - SECONDS)); then limit=$((deadline - SECONDS)); fi
  if ((limit < 5)); then
    fact "$phase" skipped '"value": "no time is left", "what": "the phase"'
    echo "SKIP: $phase: no time is left"
    return 0
  fi
  began=$SECONDS
  timeout --kill-after=5 "$limit" "$python" "$scripts/$script" "$phase" \
    >"$work/out/logs/$phase.log" 2>&1 || status=$?
  if [[ $status -eq 0 ]]; then
    fact "$phase" phase_ended "\"value\": $((SECONDS - began))"
  else
    fact "$phase" phase_completes "\"holds\": false, \"value\": \"status $status after $((SECONDS - began)) s\""
    tail -n 5 "$work/out/logs/$phase.log" | sed "s/^/$phase: /" >&2
  fi
  grep -hE '^(BROKEN|SKIP)' "$work/out/logs/$phase.log" | sed "s/^/$phase: /" || true
  echo "$phase: $((SECONDS - began)) s, status $status"
}

# At most this many phases at a time.
lanes=4
[[ $standin -eq 0 ]] || lanes=2
for phase in $together; do
  is_wanted "$phase" || continue
  while (($(jobs -rp | wc -l) >= lanes)); do wait -n || true; done
  run_phase "$phase" &
  running+=($!)
done
wait
running=()
for phase in $alone; do
  if is_wanted "$phase"; then run_phase "$phase"; fi
done

# ---- Results: at most 8 files of at most 16 MiB

readonly most_bytes=$((16 << 20))
pack() {
  local name=$1 folder=$2
  [[ -d $work/out/$folder ]] || return 0
  tar -czf "$out/$name.tar.gz" -C "$work/out" "$folder"
  while (($(stat -c %s "$out/$name.tar.gz") > most_bytes)); do
    local largest
    largest=$(find "$work/out/$folder" -type f -printf '%s %p\n' | sort -rn | head -n 1 | cut -d' ' -f2-)
    fact results left_out "\"value\": \"$(basename "$largest")\", \"why\": \"$name is too large\""
    rm "$largest"
    tar -czf "$out/$name.tar.gz" -C "$work/out" "$folder"
  done
}
pack dumps dumps
pack captures captures
pack logs logs
broken=0
"$python" "$scripts/gpu_summary.py" "$facts" >"$out/summary.md" || broken=$?
tail -n 1 "$out/summary.md" | grep -q 'invariants are broken' || fail "no summary: see $facts"
tail -n 1 "$out/summary.md"
ls -l "$out"
exit "$broken"
