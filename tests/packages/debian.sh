# shellcheck shell=bash disable=SC2016,SC2034
# Sourced by deb.sh and tar.sh: a Debian that holds nothing but its base. Needs `set -euo pipefail`, root and Debian's
# mirror.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
stage=$(mktemp -d /tmp/longhaul-packages-XXXXXX)
trap 'rm -rf "$stage"' EXIT
debian=$stage/debian

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# new_debian [MIRROR]: makes $debian.
new_debian() {
    debootstrap --variant=minbase bookworm "$debian" "${1:-http://deb.debian.org/debian}" >"$stage/debootstrap.log" 2>&1 ||
        fail "debootstrap: $(tail -n 3 "$stage/debootstrap.log")"
}

# in_debian: runs a script, its standard input, in /srv there, where `packages` calls apt-get. In a mount namespace of
# its own: nothing stays mounted.
in_debian() {
    {
        printf '%s\n' 'set -euo pipefail' 'cd /srv' \
            'export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1' \
            'export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=self,vader' \
            'packages() { apt-get -qq -y "$@" >packages.log 2>&1 || { cat packages.log && exit 1; }; }'
        cat
    } >"$debian/srv/script.sh"
    unshare --mount bash -c "cd '$debian' && mount -t proc proc proc && mount -t sysfs sysfs sys &&
        mount -t devpts devpts dev/pts && mount -t tmpfs tmpfs dev/shm &&
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv chroot '$debian' bash /srv/script.sh"
}

# Answers of one rank and of two are the same. PROGRAM and MPIRUN are set by the script before it.
two_ranks='
$PROGRAM --version
$PROGRAM import --random tiny -o tiny.h5 -q
prompt="A prompt that is longer than the budget of its policy: $(seq -s " " 60)"
run=("$PROGRAM" generate -m tiny.h5 -p "$prompt" --budget 40 -n 24 -q --deterministic)
"${run[@]}" >one
$MPIRUN -n 2 "${run[@]}" >two
cmp one two && [ -s one ]
'
