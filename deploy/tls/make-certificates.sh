#!/usr/bin/env bash
# Makes what Dask needs to talk under TLS: a certificate authority, one certificate that it signed, and dask.yaml,
# Dask's configuration that names them. Whoever has the folder can join the cluster and run code on it; nobody else.
#
#   make-certificates.sh FOLDER [DAYS]      # DAYS until they expire, 30 if not given
#   export DASK_CONFIG=FOLDER               # for scheduler, workers and the run: all then use tls://
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 FOLDER [DAYS]" >&2
    exit 2
fi
if [ -e "$1/key.pem" ]; then
    echo "error: \`$1\` has a key already" >&2
    echo >&2
    echo "hint: name another folder, or remove this one: certificates of two authorities do not trust each other" >&2
    exit 2
fi
days=${2:-30}

umask 077
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
# The authority's own key goes too: nothing more can be signed, so a lost folder is mended by a new one.
trap 'rm -rf "$work"' EXIT

# Python 3.13 asks for these extensions, and refuses certificates without them.
cat >"$work/openssl.cnf" <<'EOF'
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[member]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
EOF
new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config "$work/openssl.cnf")
{
    openssl req -x509 "${new_key[@]}" -extensions authority -days "$days" -subj "/CN=sssp-pipeline authority" \
        -keyout "$work/ca-key.pem" -out "$folder/ca.pem"
    openssl req "${new_key[@]}" -subj "/CN=sssp-pipeline" -keyout "$folder/key.pem" -out "$work/request.pem"
    openssl x509 -req -in "$work/request.pem" -CA "$folder/ca.pem" -CAkey "$work/ca-key.pem" -CAcreateserial \
        -CAserial "$work/serial" -days "$days" -extfile "$work/openssl.cnf" -extensions member -out "$folder/cert.pem"
} 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
}

cat >"$folder/dask.yaml" <<EOF
distributed:
  comm:
    default-scheme: tls
    require-encryption: true
    tls:
      ca-file: "$folder/ca.pem"
      scheduler: {cert: "$folder/cert.pem", key: "$folder/key.pem"}
      worker: {cert: "$folder/cert.pem", key: "$folder/key.pem"}
      client: {cert: "$folder/cert.pem", key: "$folder/key.pem"}
EOF
