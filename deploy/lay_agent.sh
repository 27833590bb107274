#!/bin/sh
# Lays what training containers load into a folder of the node: the portable client library and the
# Python package with the folder that watches for torch. The folder is not the one with the socket:
# every container that mounts it must mount it read-only, because all others load code from it.
#
#   lay_agent.sh [DIR [PREFIX]]
#
# DIR is /run/profd/client unless given, PREFIX where profd is installed (/usr). Afterwards
#
#   DIR/current                               a link to the newest DIR/.client-N
#   DIR/current/profd/libprofd_client.so      for CUDA_INJECTION64_PATH
#   DIR/current/profd/_inject                 for PYTHONPATH
#
# A file that processes have mapped is never written again: every call makes a folder of its own and
# then moves the link. The three newest folders are kept, for processes that still import from one.
set -eu

dir=${1:-/run/profd/client}
prefix=${2:-/usr}
kept=3

fail() {
  echo "lay_agent: $*" >&2
  exit 1
}

library=
for place in "$prefix"/lib/libprofd_client.so "$prefix"/lib/*/libprofd_client.so \
  "$prefix"/lib64/libprofd_client.so; do
  if [ -r "$place" ]; then
    library=$place
    break
  fi
done
[ -n "$library" ] || fail "no libprofd_client.so below $prefix: name the prefix that profd is installed in"
package=
for place in "$prefix"/lib/python3/dist-packages/profd "$prefix"/lib/python3*/site-packages/profd; do
  if [ -r "$place/_inject/sitecustomize.py" ]; then
    package=$place
    break
  fi
done
[ -n "$package" ] || fail "no Python package profd below $prefix"

# Readable to every container, whatever the umask was.
umask 022
mkdir -p "$dir"
number=1
for folder in "$dir"/.client-*; do
  n=${folder##*/.client-}
  case $n in
    *[!0-9]* | '') ;;
    *) if [ "$n" -ge "$number" ]; then number=$((n + 1)); fi ;;
  esac
done

new=$dir/.client-$number
mkdir "$new"
cp -R "$package" "$new/profd"
cp "$library" "$new/profd/libprofd_client.so"
find "$new" -name __pycache__ -prune -exec rm -rf {} +
chmod -R u=rwX,go=rX "$new"

# A rename replaces the old link in one step; `ln -f` would leave a moment without one.
ln -s ".client-$number" "$dir/.link-$number"
mv -T "$dir/.link-$number" "$dir/current"

for folder in "$dir"/.client-*; do
  n=${folder##*/.client-}
  case $n in
    *[!0-9]* | '') ;;
    *) if [ "$n" -le $((number - kept)) ]; then rm -rf "$folder"; fi ;;
  esac
done
