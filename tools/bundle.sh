#!/usr/bin/env bash
# bundle.sh OUT INSTALLED | NAME=PROGRAM…: packs an installed build (the folder of `cmake --install build --prefix
# INSTALLED`), or programs, into one file that runs from any folder of a machine without packages, a GPU's driver aside.
# OUT ends with .tar.gz or .tar.xz (half the size, for programs with the same kernels), or is a folder to make. In it:
#   bin/NAME         starts programs/NAME, with the libraries below
#   bin/mpirun       Open MPI's, for ranks of one machine, with its plugins in lib/
#   lib/             every shared library that the programs need, but the C library's and the driver's
#   glibc/           the C library of this machine, for machines whose own is older
#   include/, share/ of an installed build: headers, manual, completion; liblonghaul and its pkg-config file are in lib/
#   first_hour.sh    of programs: what to run first on a machine with a GPU
#   contents         versions, and the oldest C library that the programs run with
# Needs ldd, objdump and strip; fails above 48 MiB.
set -euo pipefail

fail() {
    printf 'bundle.sh: %s\n' "$*" >&2
    exit 1
}

[ $# -ge 2 ] || fail "usage: tools/bundle.sh OUT INSTALLED | NAME=PROGRAM…"
out=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
most_bytes=$((48 << 20))
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/longhaul-bundle
mkdir -p "$top"/{bin,programs,lib/openmpi,lib/pmix,share/openmpi,glibc}

# The C library: what an own loader needs beside it.
is_glibc() {
    case $1 in
    ld-linux* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libutil.so.* | libmvec.so.*) return 0 ;;
    *) return 1 ;;
    esac
}

# take FILE: copies the libraries that it needs.
take() {
    local library
    while read -r library; do
        case ${library##*/} in libcuda.so.* | libnvidia-*) continue ;; esac
        if is_glibc "${library##*/}"; then
            cp -Lnu "$library" "$top/glibc/"
        else
            cp -Lnu "$library" "$top/lib/"
        fi
    done < <(ldd "$1" | awk '$1 ~ /^\// { print $1 } $3 ~ /^\// { print $3 }')
}

add_program() {
    strip -o "$top/programs/$1" "$2"
    cp "$root/tools/bundle_start.sh" "$top/bin/$1"
    take "$2"
}

# mpirun, the plugins of Open MPI and of PMIx, and the texts of their messages.
add_mpi() {
    local plugin folder
    folder=$(ompi_info --path pkglibdir --parsable | sed 's/.*://')
    for plugin in "$folder"/*.so; do
        case ${plugin##*/} in
        # networks, job managers and file systems of clusters; OpenSHMEM
        *ofi* | *ucx* | *scoll* | *spml* | *sshmem* | *memheap* | *_atomic_* | *psm* | *openib* | *usnic* | *verbs* | *monitoring* | *slurm* | *gridengine* | *tm.so | *lustre*) continue ;;
        esac
        cp -L "$plugin" "$top/lib/openmpi/"
        take "$plugin"
    done
    cp -L "$(ompi_info --path pkgdatadir --parsable | sed 's/.*://')"/help-*.txt "$top/share/openmpi/"
    for plugin in /usr/lib/*/pmix2/lib/pmix/*.so; do
        [ -e "$plugin" ] || continue
        cp -L "$plugin" "$top/lib/pmix/"
        take "$plugin"
    done
    add_program mpirun "$(command -v mpirun)"
}

# add_installed FOLDER: its program, library, headers, manual and completion.
add_installed() {
    local library
    [ -x "$1/bin/longhaul" ] || fail "'$1' has no bin/longhaul: 'cmake --install build --prefix $1' makes it"
    library=$(find "$1" -name 'liblonghaul.so' -print -quit)
    [ "$library" ] || fail "'$1' has no liblonghaul.so"
    add_program longhaul "$1/bin/longhaul"
    take "$library"
    cp -R "${library%/*}"/. "$top/lib/"
    cp -R "$1/include" "$1/share" "$top/"
}

for part in "$@"; do
    case $part in
    *=*)
        [ -x "${part#*=}" ] || fail "'${part#*=}' is no program: build it first"
        add_program "${part%%=*}" "${part#*=}"
        cp "$root/tools/first_hour.sh" "$top/"
        ;;
    *) add_installed "$part" ;;
    esac
done
if command -v ompi_info >/dev/null && command -v mpirun >/dev/null; then add_mpi; fi
{
    printf 'longhaul %s\n' "$(git -C "$root" describe --always --dirty 2>/dev/null || echo 'of an unknown commit')"
    printf 'glibc %s or later; older: glibc/ is used\n' "$(find "$top/programs" "$top/lib" -type f -exec objdump -T {} + 2>/dev/null |
        grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1 | sed 's/GLIBC_//')"
} >"$top/contents"

case $out in
*.tar.gz) tar -C "$stage" --owner 0 --group 0 -c longhaul-bundle | gzip -9 >"$out.partial" ;;
*.tar.xz) tar -C "$stage" --owner 0 --group 0 -c longhaul-bundle | xz --lzma2=preset=1,dict=128MiB >"$out.partial" ;;
*)
    [ ! -e "$out" ] || fail "'$out' is there already"
    mv "$top" "$out"
    exit
    ;;
esac
bytes=$(stat -c %s "$out.partial")
[ "$bytes" -lt $most_bytes ] || fail "the bundle has $bytes bytes, more than $most_bytes: build fewer architectures (LH_CUDA_ARCHITECTURES=90-real)"
mv "$out.partial" "$out"
printf '%s: %s bytes\n' "$out" "$bytes"
cat "$top/contents"
