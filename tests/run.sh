#!/usr/bin/env bash
# Installs what is missing, builds and runs every test: units, one to four ranks, and the parsers under the address and
# undefined behaviour sanitizers with a short fuzz. `--long` adds the long loops and a million mutations; `--gpu` runs
# the tests that need a CUDA device, alone; `--gpu --sanitize` runs them under compute-sanitizer as well, with the sizes of
# an emulated device.
# For Debian 12, as root or with sudo. Can be run again at any time; ends with the summary of ctest.
set -euo pipefail
# shellcheck source=jobs/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../jobs/common.sh"

gpu='' sanitize=''
case "$*" in
'') ;;
--long) export LONGHAUL_LONG=1 ;;
--gpu) gpu=ON ;;
'--gpu --sanitize') gpu=ON sanitize=ON ;;
*)
    echo "usage: tests/run.sh [--long | --gpu [--sanitize]]"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac

# run_tests FOLDER [CTEST OPTIONS…]: says what failed and how; the summary stays in $logs/FOLDER.tests.
run_tests() {
    local folder=$1 name
    name=${folder//\//-}
    shift
    watched "$logs/$name.tests" ctest --test-dir "$root/$folder" --output-on-failure -j "$cores" "$@" && return
    failed=1
    say "tests of $folder failed:"
    # Without what ctest says of the tests that passed, and without its summary.
    sed '/tests passed/,$d' "$logs/$name.tests" | grep -Ev '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#.* Passed )' |
        tail -n 200
}

# compute-sanitizer from PATH, or from where the toolkit usually is.
run_sanitized() {
    local sanitizer tool
    sanitizer=$(PATH=$PATH:${CUDA_HOME-/usr/local/cuda}/bin command -v compute-sanitizer) ||
        fail "compute-sanitizer was not found: put the CUDA toolkit's bin folder on PATH, or set CUDA_HOME"
    for tool in memcheck racecheck synccheck; do
        say "testing on a CUDA device under $sanitizer --tool $tool"
        LONGHAUL_TEST_SMALL=1 CK_TIMEOUT_MULTIPLIER=50 \
            LONGHAUL_GPU_UNDER="$sanitizer --tool $tool --target-processes all --error-exitcode 9" \
            run_tests build-cuda -L gpu
        sed -n '/tests passed/,$p' "$logs/build-cuda.tests"
    done
}

failed=0
install "${packages[@]}" check
if [ "$gpu" ]; then
    build cuda build-cuda -- -DLH_TESTS=ON
    say "testing on a CUDA device"
    run_tests build-cuda -L gpu
    sed -n '/tests passed/,$p' "$logs/build-cuda.tests"
    [ "$sanitize" ] && run_sanitized
    exit "$failed"
fi
build release build -- -DLH_TESTS=ON -DLH_CUDA=AUTO
say "$(sed -n 's/^-- \(CUDA toolkit.*\)/\1/p' "$logs/configure-build.log")"
parsers=()
for room in base text import fuzz; do
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
