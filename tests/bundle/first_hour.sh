#!/usr/bin/env bash
# first_hour.sh LONGHAUL OPS MODELS: what tools/first_hour.sh says of a bundle of these programs, which are for the emulated
# device, in an empty folder with an empty environment; and of bundles whose programs fail, crash, hang and are missing.
# shellcheck disable=SC2016 # patterns and programs, not variables
set -u
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

# check WORDS COMMAND…
check() {
    local words=$1
    shift
    "$@" >/dev/null || {
        printf 'not so: %s\n' "$words"
        failed=1
    }
}

# first_hour NAME [VARIABLE=VALUE…]: of the bundle NAME, into NAME.out; exit code in $rc, seconds in $took.
first_hour() {
    local name=$1 start=$SECONDS
    shift
    env -i HOME="$folder" FIRST_HOUR_SMALL=1 "$@" "$(command -v bash)" "$tools/first_hour.sh" "$name" "$name.out" >"$name.log" 2>&1
    rc=$?
    took=$((SECONDS - start))
}

# ---- programs that do what they should, slowly ----

"$tools/bundle.sh" good.tar.gz longhaul="$1" ops="$2" models="$3" >bundle.log || { cat bundle.log && exit 1; }
mkdir empty
mv good.tar.gz empty/
cd empty || exit 1
first_hour good.tar.gz FIRST_HOUR_SECONDS=4000 FIRST_HOUR_FAMILIES='rows finish' CK_TIMEOUT_MULTIPLIER=5
out=good.tar.gz.out
[ $rc = 0 ] || cat good.tar.gz.log $out/verdict.md
check 'it ends with 0' [ $rc = 0 ]
check 'no failure' grep -qx '# Verdict: no failure' $out/verdict.md
check 'an operation is right' grep -qE '^\| `finish_scores` \| [0-9]+ \| [0-9]+ \| 0?\.?[0-9e-]* \| ok \|$' $out/verdict.md
check 'one of another family was not run' grep -qF '| `gemm` | 0 | 0 |  | -not run |' $out/verdict.md
check 'two ranks ran' [ "$(cat $out/two-ranks.rc)" = 0 ]
for figure in 'copy rate' 'attention' 'prefill of 80 tokens, warm' 'prefill of 48 tokens, cold' \
    'attention in a window' 'products of a step, 4 sequences' 'decode step, 24 entries' 'decode step, full, batch 3' 'decode step, 24 entries, q4_K_M' \
    'decode step, 24 entries, q4_K_M beside bf16' 'prefill of 48 tokens, q4_K_M beside bf16' 'pay-off of a step' 'share of eviction in prefill, 80 tokens' \
    'launches of a step' 'peak memory, counted'; do
    check "'$figure' is measured" grep -qE "^\| $figure \| -?[0-9.]+" $out/verdict.md
done
check 'the figure furthest from its limit is first' awk -F '|' '
    /^\| figure/ { here = 1 }
    /^\| operation/ { here = 0 }
    here && $5 + 0 > 0 { if ($5 + 0 < last) exit 1; last = $5 + 0; n++ }
    END { if (n < 10) exit 1 }' $out/verdict.md
check 'every figure has its row' [ "$(grep -c '"kind": "figure"' $out/verdict.json)" = "$(wc -l <$out/figures.names)" ]
check 'the state of JSON' grep -q '^{"state": "complete", "seconds": [0-9]*, "failures": 0, ' $out/verdict.json
cd ..

# ---- programs that do not ----

# bundle NAME OPS [CUDA]: a folder whose programs are lines of shell. CUDA: what `info` says of it.
bundle() {
    mkdir -p "$1/bin"
    printf '#!/bin/sh\nexit 0\n' >"$1/bin/models"
    printf '#!/bin/sh\necho '\''{"cuda":"%s"}'\''\n' "${3:-a card}" >"$1/bin/longhaul"
    printf '#!/bin/sh\n[ $# = 0 ] && echo one && echo two && exit\n%s\n' "$2" >"$1/bin/ops"
    chmod +x "$1"/bin/*
}

bundle failing 'printf "add\t3\t9\t7.5\tfailed\n" >$LONGHAUL_TEST_TABLE; echo test_ops.c:12:F:all: wrong; exit 1'
first_hour failing
check 'a failure ends with 1' [ $rc = 1 ]
check 'the failure is told' grep -qF '| program | ops-one | **failed (1)** | test_ops.c:12:F:all: wrong |' failing.out/verdict.md
check 'its operation is told first' grep -qF '| operation | add | **failed** |' failing.out/verdict.md
check 'the other family ran, too' grep -qF '| program | ops-two | **failed (1)** |' failing.out/verdict.md

bundle crashing 'kill -SEGV $$'
first_hour crashing
check 'a crash ends with 1' [ $rc = 1 ]
check 'the crash is told' grep -qF '| program | ops-one | **crashed (signal 11)** |' crashing.out/verdict.md

bundle hanging 'trap "" TERM; while :; do sleep 1; done'
first_hour hanging FIRST_HOUR_SECONDS=40
check 'a program that hangs ends with 1' [ $rc = 1 ]
check 'it ends in time' [ $took -le 42 ]
check 'it is told' grep -qF '| program | ops-one | **out of time** |' hanging.out/verdict.md

# compute-sanitizer, as a program that notes what it is given
mkdir tools
printf '#!/bin/sh\necho "$*" >>%s/runs; exit 0\n' "$folder" >tools/compute-sanitizer
chmod +x tools/compute-sanitizer
bundle sanitized 'echo "$1" >>$0.order; sleep 0.5'
sed -i 's/echo one && echo two/echo one two three four five bits/' sanitized/bin/ops
first_hour sanitized PATH="$folder/tools:$PATH"
check 'the sanitizers find nothing' grep -qF ', 19 of 19 runs under compute-sanitizer found nothing' sanitized.out/verdict.md
check 'racecheck and synccheck get one kernel and few launches each' [ "$(grep -cE \
    -- '--tool (race|sync)check --kernel-name kns=[a-z_]+ --launch-count [0-9]{1,2} ' runs)" = "$(grep -cvF memcheck runs)" ]
sed -n 's/.*kns=\([a-z_]*\).*/\1/p' runs | sort -u | while read -r kernel; do
    grep -rqE "[^a-z_]$kernel\(" "$tools/../src/kernels/cuda" || echo "$kernel"
done >unknown
check 'every kernel is one' [ ! -s unknown ]
check 'the longest family is among the first' grep -qx bits <(head -n 4 sanitized/bin/ops.order)

bundle cardless 'exit 1' 'no driver'
first_hour cardless
check 'a machine without a card ends with 1' [ $rc = 1 ]
check 'that is all that is told' [ "$(grep -c '^| .* | \*\*' cardless.out/verdict.md)" = 1 ]
check 'the reason is told' grep -qF '| machine | CUDA device | **none** | no driver |' cardless.out/verdict.md

first_hour missing
check 'a bundle that is not there ends with 1' [ $rc = 1 ]
check 'its absence is told' grep -qF 'no bundle' missing.out/verdict.md
exit $failed
