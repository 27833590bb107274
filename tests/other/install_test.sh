#!/usr/bin/env bash
# What `cmake --install` puts in place works from there: the programs start, and an application
# is built against the installed header and library, in C and in C++.
set -euo pipefail
. "$(dirname "$0")/skip.sh"
need cmake cc c++

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$PROFD_BUILD_DIR" --prefix "$prefix" >/dev/null

"$prefix/bin/profd" --version
[[ -x $prefix/libexec/profd/profd-helper ]] || { echo "profd-helper is not installed"; exit 1; }
"$prefix/bin/profctl" version || [[ $? -eq 6 ]]  # no daemon is fine, an unusable binary is not
library=$(find "$prefix" -name libprofd_client.so)
[[ -n $library && -e ${library%/*}/libprofd_preload.so ]]

# ---- applications, built against what is installed ----

libdir=${library%/*}
run() { LD_LIBRARY_PATH=$libdir PROFD_DISABLE=1 "$prefix/app"; }

cat >"$prefix/app.c" <<'C'
#include <profd/profd.h>
static profd_name kName = PROFD_NAME_INIT("name");
int main(void) {
  profd_range_begin(&kName);
  profd_range_end();
  return 0;
}
C
for compile in "cc -x c -std=c99" "c++ -x c++ -std=c++14"; do
  $compile -Wall -Wextra -Wpedantic -Wconversion -Werror -I"$prefix/include" "$prefix/app.c" \
    -o "$prefix/app" -L"$libdir" -lprofd_client
  run
done

cat >"$prefix/app.cc" <<'C'
#include <profd/profd.hpp>

#include <string>

int main(int argc, char**) {
  profd::Init();
  profd::SetMetadata("job", "install_test");
  const std::string text = "made at run time";
  static profd::Name name("name");
  // Two on one line, and one as all of a branch.
  PROFD_RANGE("first"); PROFD_RANGE("second");
  if (argc > 1) PROFD_RANGE("then"); else PROFD_RANGE("otherwise");
  PROFD_DYNAMIC_RANGE(text);
  const profd::InternedName interned(text);
  profd::ScopedRange kept(interned);
  profd::Counter(name, 1.5);
  profd::Instant(interned);
  profd::Alloc({&argc, 64});
  profd::Free({&argc, 64});
  profd::Step();
  return 0;
}
C
warnings="-Wall -Wextra -Wpedantic -Wold-style-cast -Wconversion -Wshadow -Werror"
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "without $compiler: it is not installed"; continue; }
  for standard in c++17 c++20; do
    # shellcheck disable=SC2086 # several words
    "$compiler" -std=$standard $warnings -I"$prefix/include" "$prefix/app.cc" -o "$prefix/app" \
      -L"$libdir" -lprofd_client
    run
    # Compiled out: it links without the library.
    # shellcheck disable=SC2086
    "$compiler" -std=$standard $warnings -DPROFD_DISABLE_ANNOTATIONS -I"$prefix/include" \
      "$prefix/app.cc" -o "$prefix/app"
    run
  done
done

# What cannot work says what to do.
refuses() {
  local standard=$1 code=$2 expected=$3 said
  said=$(g++ -std="$standard" -I"$prefix/include" -fsyntax-only -x c++ - <<<"$code" 2>&1) &&
    { echo "compiles: $code"; exit 1; }
  grep -qF "$expected" <<<"$said" || { echo "no \"$expected\" in: $said"; exit 1; }
}
refuses c++14 '#include <profd/profd.hpp>' 'needs C++17'
refuses c++17 '#include <profd/profd.hpp>
void F(const std::string_view& text) { PROFD_RANGE(text); }' 'takes a string literal'

# With CMake and with pkg-config.
[[ $(readelf -d "$library") == *'[libprofd_client.so.1]'* ]] || { echo "no versioned SONAME"; exit 1; }
cat >"$prefix/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(app CXX)
find_package(profd 0.1 REQUIRED)
add_executable(app app.cc)
target_compile_features(app PRIVATE cxx_std_17)
target_link_libraries(app PRIVATE profd::client)
CMAKE
cmake -S "$prefix" -B "$prefix/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$prefix/build" >/dev/null
PROFD_DISABLE=1 "$prefix/build/app"
if command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs profd)
  # shellcheck disable=SC2086
  c++ -std=c++17 "$prefix/app.cc" $flags -o "$prefix/app"
  run
fi

# The sample configuration and the manual name every setting.
settings=$("$prefix/bin/profd" --help | sed -nE 's/^ +--([a-z-]+).*/\1/p' |
  grep -vxE 'config|help|version|prepare')
for setting in $settings; do
  grep -qE "^# $setting = " deploy/profd.conf || { echo "not in profd.conf: $setting"; exit 1; }
  grep -qF -- "\\-\\-${setting//-/\\-}" deploy/man/profd.8 || { echo "not in profd.8: $setting"; exit 1; }
done

# What profctl run finds is what was installed.
found=$(env -u PROFD_CLIENT_LIB "$prefix/bin/profctl" run -- printenv NVTX_INJECTION64_PATH)
[[ $found == "$(realpath "$library")" ]] || { echo "profctl run found $found"; exit 1; }

preloaded=$("$prefix/bin/profctl" run --preload -- printenv LD_PRELOAD)
[[ $preloaded == "$(realpath "${library%/*}")/libprofd_preload.so" ]] || { echo "preloaded $preloaded"; exit 1; }

for file in share/man/man1/profctl.1 share/man/man8/profd.8 lib/systemd/system/profd.service \
  share/bash-completion/completions/profctl; do
  [[ -s $prefix/$file ]] || { echo "not installed: $file"; find "$prefix" -type f; exit 1; }
done
find "$prefix" -name __init__.py -path '*profd*' | grep -q . ||
  { echo "the Python package is not installed"; exit 1; }
