#!/usr/bin/env bash
# Makes a certificate authority, and certificates of nodes and users, to try mutual TLS with.
#
#   deploy/pki/make_test_pki.sh DIR [--node NAME[,ADDRESS]...]... [--user NAME]... [--days N]
#
#   DIR            made if it is not there; what it holds of an authority is used again
#   --node NAME    DIR/NAME.crt and NAME.key, for a daemon; callers may know it by NAME, by
#                  each ADDRESS (a name or an IP address), and by localhost
#   --user NAME    DIR/NAME.crt and NAME.key, for a caller; profd calls it cn:NAME
#   --spiffe ID    the users that follow carry this SPIFFE id, too: spiffe://DOMAIN/PATH
#   --days N       those that follow are valid for N days from now on (default: 30); below 0:
#                  they ended N days ago already
#
# Without --node and --user: the node `localhost` and the user `alice`.
#
# The authority's key lies beside, without a passphrase: for tests and trials, not for a site.
set -euo pipefail

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'; }

fail() {
  echo "make_test_pki: $1" >&2
  exit 2
}

# openssl talks about its progress; what it said counts when it fails.
quietly() {
  "$@" 2>"$work/log" && return
  cat "$work/log" >&2
  exit 1
}

# What a certificate says of its owner becomes a file name and an argument of openssl.
check_name() {
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$ ]] ||
    fail "'$1' is no name: letters, digits, '.', '_', '@' and '-', at most 63"
}

san_of() {
  if [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$ || $1 == *:* ]]; then
    echo "IP:$1"
  else
    check_name "$1"
    echo "DNS:$1"
  fi
}

make_authority() {
  [[ -e $dir/ca.crt && -e $dir/ca.key ]] && return
  quietly openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -days 3650 \
    -keyout "$dir/ca.key" -out "$dir/ca.crt" -subj "/CN=profd test authority" \
    -addext basicConstraints=critical,CA:true,pathlen:0 \
    -addext keyUsage=critical,keyCertSign,cRLSign
  echo "$dir/ca.crt"
}

# NAME USAGE SUBJECT_ALT_NAMES
make_certificate() {
  local name=$1 usage=$2 names=$3 request=$work/$1.csr
  local -a validity=(-days "$days")
  if [[ $days -lt 0 ]]; then
    # x509 -req cannot sign what is over; ca can, with dates of its own.
    validity=()
  fi
  quietly openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 \
    -keyout "$work/$name.key" -out "$request" -subj "/CN=$name"
  printf 'basicConstraints=critical,CA:false\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n%s' \
    "$usage" "${names:+subjectAltName=$names
}" >"$work/extensions"
  if [[ ${#validity[@]} -gt 0 ]]; then
    quietly openssl x509 -req -in "$request" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -sha256 \
      -set_serial "0x$(openssl rand -hex 16)" -extfile "$work/extensions" "${validity[@]}" \
      -out "$work/$name.crt"
  else
    : >"$work/index"
    openssl rand -hex 16 >"$work/serial"
    printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s\nnew_certs_dir=%s\nserial=%s\npolicy=p\n[p]\ncommonName=supplied\n' \
      "$work/index" "$work" "$work/serial" >"$work/config"
    quietly openssl ca -batch -notext -md sha256 -in "$request" \
      -cert "$dir/ca.crt" -keyfile "$dir/ca.key" -extfile "$work/extensions" \
      -startdate "$(date -u -d "$days days -30 days" +%Y%m%d%H%M%SZ)" \
      -enddate "$(date -u -d "$days days" +%Y%m%d%H%M%SZ)" \
      -config "$work/config" -out "$work/$name.crt"
  fi
  # The key first: a daemon that looks between the two finds a pair that does not fit, and waits.
  mv "$work/$name.key" "$dir/$name.key"
  mv "$work/$name.crt" "$dir/$name.crt"
  echo "$dir/$name.crt"
}

make_node() {
  local name=${1%%,*} names=DNS:localhost,IP:127.0.0.1,IP:::1 one
  check_name "$name"
  local -a others
  IFS=, read -r -a others <<<"$1"
  for one in "${others[@]}"; do names+=,$(san_of "$one"); done
  # A daemon may call others, too.
  make_certificate "$name" serverAuth,clientAuth "$names"
}

make_user() {
  check_name "$1"
  make_certificate "$1" clientAuth "${spiffe:+URI:$spiffe}"
}

main() {
  case ${1-} in
    -h | --help)
      usage
      exit 0
      ;;
    '' | -*)
      usage >&2
      exit 2
      ;;
  esac
  command -v openssl >/dev/null || fail "openssl is not here; apt-get install openssl"
  dir=$1
  shift
  days=30 spiffe=
  local -a kinds=() names=() spiffes=() validities=()
  while [[ $# -gt 0 ]]; do
    [[ $# -ge 2 ]] || fail "$1 needs a value"
    case $1 in
      --node | --user)
        kinds+=("${1#--}")
        names+=("$2")
        spiffes+=("$spiffe")
        validities+=("$days")
        ;;
      --spiffe)
        [[ $2 =~ ^spiffe://[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$ ]] || fail "'$2' is no SPIFFE id"
        spiffe=$2
        ;;
      --days)
        [[ $2 =~ ^-?[0-9]{1,5}$ && $2 != 0 ]] || fail "--days takes a number that is not 0"
        days=$2
        ;;
      *) fail "unknown argument '$1'; --help says what there is" ;;
    esac
    shift 2
  done
  if [[ ${#kinds[@]} -eq 0 ]]; then
    kinds=(node user) names=(localhost alice) spiffes=('' '') validities=("$days" "$days")
  fi
  umask 077
  mkdir -p "$dir"
  work=$(mktemp -d "$dir/.making.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  make_authority
  local i
  for i in "${!kinds[@]}"; do
    spiffe=${spiffes[$i]} days=${validities[$i]}
    "make_${kinds[$i]}" "${names[$i]}"
  done
}

main "$@"
