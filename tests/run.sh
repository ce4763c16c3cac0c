#!/usr/bin/env bash
# Installs what is missing, builds and runs every test: units, one to four ranks, and the parsers under the address and
# undefined behaviour sanitizers with a short fuzz. `--long` adds the long loops and a million mutations; `--gpu` runs
# the tests that need a CUDA device, alone.
# For Debian 12, as root or with sudo. Can be run again at any time; ends with the summary of ctest.
set -euo pipefail
# shellcheck source=jobs/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../jobs/common.sh"

gpu=
case "${1-}" in
'') ;;
--long) export LONGHAUL_LONG=1 ;;
--gpu) gpu=ON ;;
*)
    echo "usage: tests/run.sh [--long | --gpu]"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac

# run_tests FOLDER [CTEST OPTIONS…]: says what failed and how; the summary stays in $logs/FOLDER.tests.
run_tests() {
    local folder=$1 name
    name=${folder//\//-}
    shift
    ctest --test-dir "$root/$folder" --output-on-failure -j "$cores" "$@" >"$logs/$name.tests" 2>&1 && return
    failed=1
    say "tests of $folder failed:"
    # Without what ctest says of the tests that passed, and without its summary.
    sed '/tests passed/,$d' "$logs/$name.tests" | grep -Ev '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#.* Passed )' |
        tail -n 200
}

failed=0
install "${packages[@]}" check
if [ "$gpu" ]; then
    build cuda build-cuda -- -DLH_TESTS=ON
    say "testing on a CUDA device"
    run_tests build-cuda -L gpu
    sed -n '/tests passed/,$p' "$logs/build-cuda.tests"
    exit "$failed"
fi
build release build -- -DLH_TESTS=ON
parsers=()
for room in base model fuzz; do
    [ -e "$root/tests/$room/CMakeLists.txt" ] && parsers+=("tests/$room")
done
build asan build-asan "${parsers[@]/%//all}" -- -DLH_TESTS=ON
say "testing the parsers under the address and undefined behaviour sanitizers"
for folder in "${parsers[@]}"; do run_tests "build-asan/$folder"; done
say "testing everything, on 1, 2, 3 and 4 ranks"
run_tests build
say "done"
sed -n '/tests passed/,$p' "$logs/build.tests"
exit "$failed"
