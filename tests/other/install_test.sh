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

cat >"$prefix/app.c" <<'C'
#include <profd/profd.h>
int main(void) { return 0; }
C
cp "$prefix/app.c" "$prefix/app.cc"
for compile in "cc -x c -std=c11" "c++ -x c++ -std=c++20"; do
  $compile -Wall -Wextra -Werror -I"$prefix/include" "$prefix/app.c" -o "$prefix/app" \
    -L"$(dirname "$library")" -lprofd_client
  LD_LIBRARY_PATH=$(dirname "$library") PROFD_DISABLE=1 "$prefix/app"
done

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
