#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests, and names the ten slowest. Without an option: every law, at 1, 2
# and 3 ranks (4 where a law needs them), with every instruction set of this processor and CUDA code on an emulated
# device; the rooms that need no device, and a short fuzz of each parser, under the address and undefined behaviour
# sanitizers. On 2 cores 25 to 30 minutes, building included.
#   --quick  for every commit, below 8 minutes: one instruction set, 1 and 3 ranks, two programs of the emulated device
#   --long   also 4 ranks everywhere, further seeds and devices with less shared memory, long loops, a million mutations
#   --gpu    the tests that need a CUDA device, alone; with --sanitize under compute-sanitizer as well, with the sizes
#            of an emulated device
#   --browser  the pages of 'report' in Chromium, which is installed, with screenshots; nothing else
#   --packages  Debian packages and the file of tools/bundle.sh, each in a new Debian; nothing else
#   --slurm    the scripts of jobs/ on a Slurm of four virtual nodes, with a time limit and 128k tokens; nothing else
# For Debian 12, as root or with sudo. Can be run again at any time.
set -euo pipefail
# shellcheck source=jobs/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../jobs/common.sh"

gpu='' browser='' packages_alone='' slurm='' sanitize='' folder=build cuda=AUTO left_out='long' emulated=(emulated_tests)
case "$*" in
'') ;;
--quick) folder=build-quick cuda=OFF left_out='long|full' emulated=(simt_ops_bits simt_ops_attention) ;;
--long) export LONGHAUL_LONG=1 left_out='' ;;
--gpu) gpu=ON ;;
'--gpu --sanitize') gpu=ON sanitize=ON ;;
--browser) browser=ON ;;
--packages) packages_alone=ON ;;
--slurm) slurm=ON ;;
*)
    echo "usage: tests/run.sh [--quick | --long | --gpu [--sanitize] | --browser | --packages | --slurm]"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac

# mpirun and each rank would look for devices on the PCI bus, which takes a tenth of a short run.
export HWLOC_COMPONENTS=-pci,-linux:pci

# run_tests FOLDER [CTEST OPTIONS…]: says what failed and how; the summary stays in $logs/FOLDER.tests. One test more than
# there are cores, because ranks and programs that are started wait for each other.
run_tests() {
    local folder=$1 name
    name=${folder//\//-}
    shift
    watched "$logs/$name.tests" ctest --test-dir "$root/$folder" --output-on-failure -j "$((cores + 1))" "$@" && return
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

# The ten slowest of all folders, by the clock.
show_slowest() {
    local log name
    say "the slowest tests:"
    for log in "$logs"/*.tests; do
        name=$(basename "$log" .tests)
        sed -nE "s|^ *[0-9]+/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*|\\2 s  \\1 ($name)|p" "$log"
    done | sort -rn | awk 'NR <= 10 { print "        " $0 }' # reads to the end: a writer must not get SIGPIPE
}

slurm_packages=(slurmctld slurmd slurm-client)
failed=0
install "${packages[@]}" check ${browser:+chromium}
if [ "$packages_alone" ]; then
    install dpkg-dev debootstrap lintian binutils
    build deb build-packages -- -B build-packages -DLH_CUDA=OFF -DLH_WERROR=ON
    for kind in deb tar; do
        say "testing in a new Debian: $kind.sh"
        watched "$logs/$kind.log" as_root "$root/tests/packages/$kind.sh" "$root/build-packages" || failed=1
        cat "$logs/$kind.log"
    done
    exit "$failed"
fi
if [ "$slurm" ]; then
    install "${slurm_packages[@]}"
    build release build longhaul -- -DLH_WERROR=ON
    say "testing jobs/ on Slurm"
    "$root/tests/slurm/jobs.sh" "$root/build/longhaul" long && failed=0 || failed=$?
    exit "$failed"
fi
if [ "$browser" ]; then
    build release build longhaul tests/report/all -- -DLH_TESTS=ON -DLH_WERROR=ON -DLH_CUDA=OFF
    say "testing pages in Chromium"
    LONGHAUL_SCREENSHOTS=1 run_tests build -L browser
    say "screenshots are in build/screenshots"
    exit "$failed"
fi
if [ "$gpu" ]; then
    build cuda build-cuda -- -DLH_TESTS=ON -DLH_WERROR=ON
    say "testing on a CUDA device"
    run_tests build-cuda -L gpu
    sed -n '/tests passed/,$p' "$logs/build-cuda.tests"
    [ "$sanitize" ] && run_sanitized
    exit "$failed"
fi
# Without Slurm the test of jobs/ is skipped.
[[ $left_out == *full* ]] || (install "${slurm_packages[@]}") || say "Slurm cannot be installed: jobs/ is not tested on it"
# The groups of tests/CMakeLists.txt.
# Without numpy and h5py the Python package is not tested.
[[ $left_out == *full* ]] || (install python3-numpy python3-h5py) || say "python3-numpy and python3-h5py cannot be installed"
# Where no device can run them, kernels are compiled to see that they compile: in less than half the time.
cuda_flags=()
compgen -G '/dev/nvidia[0-9]*' >/dev/null ||
    cuda_flags=(-DCMAKE_CUDA_FLAGS_RELEASE='-O1 -Xcicc=-O1 -Xptxas=-O1' -DLH_CUDA_ARCHITECTURES=80-real)
build release "$folder" src/all other_tests "${emulated[@]}" -- -B "$folder" -DLH_TESTS=ON -DLH_WERROR=ON -DLH_CUDA="$cuda" \
    "${cuda_flags[@]}"
[ "$cuda" = OFF ] || say "$(sed -n 's/^-- \(CUDA toolkit.*\)/\1/p' "$logs/configure-$folder.log")"
# Of the instruction sets of the CPU the sanitized tests run the one that is chosen here, and no other is compiled for them.
isa=$("$root/$folder/longhaul" info | sed -n 's/^ *cpu_instructions: //p')
build asan build-asan sanitized_tests -- -DLH_TESTS=ON -DLH_WERROR=ON -DLH_CPU_ISAS="$isa"
say "testing what needs no device under the address and undefined behaviour sanitizers"
run_tests build-asan -L '^sanitized$' ${left_out:+-LE "^($left_out)$"}
say "testing the other rooms"
run_tests "$folder" -LE "^(${left_out:+$left_out|}sanitized)$"
show_slowest
say "done"
sed -s -n '/tests passed/,$p' "$logs/build-asan.tests" "$logs/$folder.tests"
exit "$failed"
