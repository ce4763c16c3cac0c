#!/usr/bin/env bash
# The Debian packages of a build with the preset deb: lintian finds no error; in a Debian that holds nothing else they
# install, run on one and two ranks, build a program against the library, run a score of Python, and leave nothing when they are
# removed.
# As root; needs debootstrap, lintian and Debian's mirror: deb.sh BUILD [MIRROR]
set -euo pipefail
build=$(cd "$1" && pwd)
# shellcheck source=tests/packages/debian.sh
. "$(dirname "$0")/debian.sh"

rm -f "$build"/*.deb
(cd "$build" && cpack -G DEB >"$stage/cpack.log") || fail "cpack: $(tail -n 5 "$stage/cpack.log")"
mapfile -t packages < <(find "$build" -maxdepth 1 -name '*.deb')
[ ${#packages[@]} = 4 ] || fail "${#packages[@]} packages: ${packages[*]##*/}"
lintian --allow-root --fail-on error "${packages[@]}" || fail "lintian found errors"

new_debian "${2:-}"
cp "${packages[@]}" "$root/examples/generate.c" "$root/tests/packages/score.py" "$debian/srv/"
in_debian <<TRY || fail "see above"
find / -xdev -path '*longhaul*' -not -path '/srv/*' >before
packages update
packages install ./longhaul_*.deb # with openmpi-bin, which it recommends
PROGRAM=longhaul MPIRUN=mpirun
$two_ranks
[ -e /usr/share/bash-completion/completions/longhaul ]
packages install --no-install-recommends ./liblonghaul*.deb gcc libc6-dev pkg-config
gcc generate.c -o generate \$(pkg-config --cflags --libs longhaul)
./generate tiny.h5 "longhaul --budget 40" "\$prompt" | tail -n 1
packages install ./python3-longhaul*.deb # with python3-h5py, which it recommends
"\${run[@]}" --policy ./score.py --keep-sets kept.h5 >own
"\${run[@]}" --policy knorm@kvpress >preset
cmp own preset
python3 score.py tiny.h5 kept.h5 >one
mpirun -n 2 python3 score.py tiny.h5 kept.h5 >two
cmp one two && cat one
packages purge 'longhaul*' 'liblonghaul*' 'python3-longhaul*'
find / -xdev -path '*longhaul*' -not -path '/srv/*' | diff before -
TRY
printf '%s\n' "${packages[@]##*/}"
