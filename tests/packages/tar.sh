#!/usr/bin/env bash
# The file that tools/bundle.sh makes of an installed build runs in a Debian that holds nothing else, from a folder with
# a space in its name, on one and two ranks; and a program is built against its library.
# As root; needs debootstrap and Debian's mirror: tar.sh BUILD [MIRROR]
set -euo pipefail
build=$(cd "$1" && pwd)
# shellcheck source=tests/packages/debian.sh
. "$(dirname "$0")/debian.sh"

cmake --install "$build" --prefix "$stage/installed" >/dev/null
"$root/tools/bundle.sh" "$stage/longhaul.tar.gz" "$stage/installed"
new_debian "${2:-}"
mkdir "$debian/srv/a folder"
tar -C "$debian/srv/a folder" -xf "$stage/longhaul.tar.gz"
cp "$root/examples/generate.c" "$debian/srv/"
in_debian <<TRY || fail "see above"
top="/srv/a folder/longhaul-bundle"
export PATH="\$top/bin:\$PATH"
PROGRAM=longhaul MPIRUN=mpirun
$two_ranks
packages update
packages install --no-install-recommends gcc libc6-dev
export LD_LIBRARY_PATH="\$top/lib"
gcc generate.c -o generate -I "\$top/include" -L "\$top/lib" -llonghaul
./generate tiny.h5 "longhaul --budget 40" "\$prompt" | tail -n 1
TRY
