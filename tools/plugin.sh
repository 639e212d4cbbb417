#!/bin/bash
# Makes the directory for `docker plugin create`: config.json and a root file system with
# the static binary in $1. Use: tools/plugin.sh build/weir build/plugin
set -euo pipefail
binary=$1 dir=$2
root=$dir/rootfs
rm -rf "$dir"
mkdir -p "$root"/{bin,etc/ssl/certs,proc,sys,dev,root/.aws,run/docker/plugins,run/docker/logging,tmp}
chmod 1777 "$root/tmp"
chmod 700 "$root/root"
install -m 755 "$binary" "$root/bin/weir"
# Docker binds the host's files over these.
: >"$root/etc/hosts"
: >"$root/etc/resolv.conf"
echo 'root:x:0:0:root:/root:/bin/weir' >"$root/etc/passwd"
# Certificate authorities of the machine that builds it.
for bundle in "${CA_BUNDLE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    if [[ -n $bundle && -s $bundle ]]; then
        install -m 644 "$bundle" "$root/etc/ssl/certs/ca-certificates.crt"
        break
    fi
done
if [[ ! -s $root/etc/ssl/certs/ca-certificates.crt ]]; then
    echo "tools/plugin.sh: this machine has no bundle of certificate authorities: the plugin could not trust AWS." >&2
    echo "Install ca-certificates, or name one: make plugin CA_BUNDLE=/path/to/bundle.pem" >&2
    exit 1
fi
install -m 644 deploy/docker/plugin/config.json "$dir/config.json"
echo "$dir is ready: docker plugin create weir $dir && docker plugin enable weir"
