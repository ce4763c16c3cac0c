#!/usr/bin/env bash
# first_hour.sh BUNDLE OUT: what a GPU says of this build, in less than ten minutes (docs/gpu.md). BUNDLE is what the target
# gpu_bundle makes, packed or unpacked. The folder OUT gets verdict.md and verdict.json, written again after every step, with
# the worst first, and the output of every program. Correctness comes before speed: each operation against `ref`, whole
# models against `cpu`, compute-sanitizer where it is; then the figures that decide, as shares of what the same machine
# does at most. Every program has a time limit, and one that fails, crashes or hangs stops none of the others.
# Needs bash, awk, tar and coreutils. Ends with 1 if anything failed.
#   FIRST_HOUR_SECONDS   time for everything (590)
#   FIRST_HOUR_FAMILIES  families of operations, such as "linear attention"; default: all
#   FIRST_HOUR_SMALL     1: a tiny model and small sizes, to try this script itself
set -u
export PATH # bash has one even in an empty environment

usage() {
    printf 'usage: first_hour.sh BUNDLE OUT\n' >&2
    exit 2
}

[ $# = 2 ] || usage
bundle=$1 out=$2
seconds=${FIRST_HOUR_SECONDS:-590}
reserve=6 # for the last verdict
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
rows=$out/rows.tsv
: >"$rows"
step=unpacking step_end=$((seconds / 10))

# Sizes: a real shape, or one for trying.
model=random:llama-3.1-8b bits=q4_K_M short=32768 long=131000 warm=4096 budget=1024 steps=64 few=8 many=16 few_at=32768 many_at=16384
attention='bf16 32/8 x 128, 16384 rows of 16384' chunk='bf16 32/8 x 128, 4096 rows of 32768'
sized=()
if [ "${FIRST_HOUR_SMALL:-}" = 1 ]; then
    model=random:tiny short=48 long=80 warm=16 budget=24 steps=4 few=2 many=3 few_at=32 many_at=32
    attention='bf16 32/8 x 128, 40 rows of 64' chunk=$attention
    sized=(--quick)
    export LONGHAUL_TEST_SMALL=1
fi

# ---- rows, and the verdict that is made of them ----

# row KIND NAME OF VALUE UNIT LIMIT RATIO STATE; kinds: machine, program, operation, sanitizer, figure. State: ok, or what
# is wrong; '-' in front: nothing is wrong, but there is no result.
row() {
    local IFS=$'\t'
    printf '%s\n' "$*" >>"$rows"
}

# The figures that are expected, in the order in which they decide.
printf '%s\n' 'copy rate' 'GEMM rate, bf16' 'attention' 'attention of a chunk' 'attention in a window' \
    'attention with a soft cap' 'products of a step' 'products of a step, 4 sequences' 'products of a step, 16 sequences' \
    "prefill of $short tokens, cold" "prefill of $short tokens, warm" "prefill of $long tokens, warm" \
    "decode step, full, after $long tokens" "decode step, $budget entries" \
    "pay-off of a step" "decode step, full, batch $few" "decode step, $budget entries, batch $few" \
    "decode step, full, batch $many" "decode step, $budget entries, batch $many" \
    "decode step, $budget entries, $bits" "decode step, $budget entries, $bits beside bf16" \
    "prefill of $short tokens, $bits" "prefill of $short tokens, $bits beside bf16" \
    "share of eviction in prefill, $short tokens" "share of eviction in prefill, $long tokens" \
    'launches of a step' 'time of a launch beyond the minimum' 'peak memory, counted' >"$out/figures.names"

# Writes verdict.md and verdict.json. $1: "complete", or what is under way.
verdict() {
    awk -F '\t' -v state="$1" -v used="$SECONDS" -v out="$out" '
        function clean(s) { gsub(/["\\]/, "\047", s); gsub(/[\001-\037]/, " ", s); return s }
        function cell(s) { gsub(/\|/, "/", s); return s }
        function number(s) { return s ~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ ? s : "null" }
        function size(s) { return s ~ /^-?(nan|inf)/ ? 1e99 : s + 0 }
        function bad(s) { return s != "ok" && s !~ /^-/ }
        # Lines of the array by descending keys.
        function sorted(lines, keys, n,   i, j, l, k) {
            for (i = 2; i <= n; i++) {
                l = lines[i]; k = keys[i]
                for (j = i - 1; j > 0 && keys[j] < k; j--) { lines[j + 1] = lines[j]; keys[j + 1] = keys[j] }
                lines[j + 1] = l; keys[j + 1] = k
            }
        }
        FILENAME ~ /names$/ { want[++wanted] = $1; next }
        {
            json = json (json ? ",\n  " : "  ") "{\"kind\": \"" $1 "\", \"name\": \"" clean($2) "\", \"of\": \"" clean($3) \
                "\", \"value\": " number($4) ", \"unit\": \"" clean($5) "\", \"limit\": " number($6) ", \"ratio\": " number($7) \
                ", \"state\": \"" clean($8) "\"}"
            if (bad($8)) worst[++failures] = "| " $1 " | " cell($2) " | **" cell($8) "** | " cell(clean($3)) " |"
            if ($1 == "machine") machine[++machines] = "| " cell($2) " | " cell($3) " |"
            if ($1 == "figure") found[$2] = $0
            if ($1 == "operation") {
                ops++
                tried += !($8 ~ /^-/)
                passed += $8 == "ok"
                line[ops] = "| `" $2 "` | " $4 " | " $6 " | " $7 " | " (bad($8) ? "**" $8 "**" : $8) " |"
                key[ops] = (bad($8) ? 2e99 : 0) + size($7)
            }
            if ($1 == "sanitizer") { sanitized += !($8 ~ /^-/); clear += $8 == "ok" }
            if ($1 == "program") { programs += !($8 ~ /^-/); ran += $8 == "ok" }
        }
        END {
            file = out "/verdict.md.partial"
            print "# Verdict: " (failures ? failures " failure" (failures > 1 ? "s" : "") : "no failure") (state == "complete" ? "" : ", not complete: " state) "\n" >file
            print ran + 0 " of " programs + 0 " programs ended well, " passed + 0 " of " tried + 0 " operations are right (" \
                ops - tried " did not run), " clear + 0 " of " sanitized + 0 " runs under compute-sanitizer found nothing; " used " s.\n" >file
            if (failures) {
                print "| what | name | state | message |\n|---|---|---|---|" >file
                for (i = 1; i <= failures; i++) print worst[i] >file
                print "" >file
            }
            print "| machine | |\n|---|---|" >file
            for (i = 1; i <= machines; i++) print machine[i] >file
            for (i = 1; i <= wanted; i++) {
                n = split(found[want[i]], f, "\t")
                if (!n) { f[3] = ""; f[4] = ""; f[5] = ""; f[6] = ""; f[7] = ""; f[8] = "-not measured" }
                text[i] = "| " want[i] " | " f[4] (f[4] == "" ? "" : " " f[5]) " | " f[6] " | " f[7] " | " cell(f[3]) (f[8] == "ok" ? "" : " " f[8]) " |"
                rank[i] = f[7] == "" ? -i - 1e9 : -f[7]
                if (!n) json = json (json ? ",\n  " : "  ") "{\"kind\": \"figure\", \"name\": \"" want[i] "\", \"of\": \"\", \"value\": null, \"unit\": \"\", \"limit\": null, \"ratio\": null, \"state\": \"not measured\"}"
            }
            sorted(text, rank, wanted)
            print "\n| figure, the furthest from its limit first | value | at most | ratio | of |\n|---|---|---|---|---|" >file
            for (i = 1; i <= wanted; i++) print text[i] >file
            sorted(line, key, ops)
            print "\n| operation, the worst first | calls | numbers compared | worst error / tolerance | state |\n|---|---|---|---|---|" >file
            for (i = 1; i <= ops; i++) print line[i] >file
            close(file)
            file = out "/verdict.json.partial"
            printf "{\"state\": \"%s\", \"seconds\": %d, \"failures\": %d, \"rows\": [\n%s\n]}\n", clean(state), used, failures + 0, json >file
            close(file)
        }' "$out/figures.names" "$rows"
    mv "$out/verdict.md.partial" "$out/verdict.md"
    mv "$out/verdict.json.partial" "$out/verdict.json"
}

finish() {
    trap - TERM INT EXIT
    verdict "$step"
    exit 1
}
trap finish TERM INT EXIT

# begin PERCENT STEP: a step that gets so much of the time; the verdict of what is known, and a line.
begin() {
    step=$2
    step_end=$((SECONDS + seconds * $1 / 100))
    verdict "$step"
    printf '[%3d s] %s\n' "$SECONDS" "$step"
}

# ---- programs under time limits ----

# limited SECONDS NAME COMMAND…: output in OUT/NAME.out and .err, exit code in OUT/NAME.rc. No longer than the step may
# take; a process that cannot even be killed is left behind.
limited() {
    local limit=$1 name=$2 child end rc
    shift 2
    [ "$limit" -le $((step_end - SECONDS)) ] || limit=$((step_end - SECONDS))
    [ "$limit" -le $((seconds - reserve - SECONDS)) ] || limit=$((seconds - reserve - SECONDS))
    if [ "$limit" -lt 2 ]; then
        echo late >"$out/$name.rc"
        return
    fi
    timeout -k 2 "$limit" "$@" >"$out/$name.out" 2>"$out/$name.err" </dev/null &
    child=$!
    end=$((SECONDS + limit + 4))
    while kill -0 $child 2>/dev/null && [ $SECONDS -lt $end ]; do sleep 0.1; done
    if kill -0 $child 2>/dev/null; then
        rc=124
    else
        wait $child
        rc=$?
    fi
    echo $rc >"$out/$name.rc"
}

# state NAME: how it ended, in words.
state() {
    local rc
    rc=$(cat "$out/$1.rc")
    case $rc in
    0) printf ok ;;
    5) printf -- '-does not fit in memory' ;;
    77) printf -- '-skipped' ;;
    late) printf -- '-not run: no time left' ;;
    124 | 137) printf 'out of time' ;;
    126 | 127) printf 'does not start' ;;
    *) if [ "$rc" -gt 128 ]; then printf 'crashed (signal %d)' $((rc - 128)); else printf 'failed (%d)' "$rc"; fi ;;
    esac
}

# message NAME: the line of its output that says what is wrong.
message() {
    {
        grep -m 1 -hE ':[FE]:|ERROR SUMMARY: [1-9]|^longhaul: ' "$out/$1.out" "$out/$1.err"
        tail -qn 1 "$out/$1.err" "$out/$1.out"
    } 2>/dev/null | head -n 1 | cut -c 1-300
}

# told KIND NAME [TEXT]: the row of a program that ran as NAME.
told() {
    local how text=${3:-}
    how=$(state "$2")
    [ "$how" = ok ] || text=$(message "$2" | tr '\t' ' ')
    row "$1" "$2" "$text" '' '' '' '' "$how"
}

# ---- steps ----

unpack() {
    local beside
    if [ -d "$bundle" ]; then
        top=$(cd "$bundle" && pwd)
    else
        mkdir -p "$out/bundle"
        limited 60 unpack tar -x -C "$out/bundle" -f "$bundle"
        told program unpack
        top=$out/bundle/longhaul-bundle
        # libraries of Python's packages, as `pip install --target` puts them beside the bundle
        beside=$(cd "$(dirname "$bundle")" && pwd)
        [ ! -d "$beside/nvidia" ] || export LONGHAUL_CUDA_LIBS="${LONGHAUL_CUDA_LIBS:-$beside}"
    fi
    [ ! -d "$top/bin" ] || return 0
    row program unpack "$bundle has no folder bin" '' '' '' '' 'no bundle'
    finish
}

# member NAME FILE: the text of a member of JSON.
member() {
    grep -o "\"$1\": *\"[^\"]*\"" "$2" | head -n 1 | sed 's/^[^:]*: *"//; s/"$//'
}

machine() {
    local name text
    if command -v nvidia-smi >/dev/null; then
        limited 15 nvidia-smi nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current \
            --format=csv,noheader
        told program nvidia-smi
        row machine GPU "$(head -n 1 "$out/nvidia-smi.out")" '' '' '' '' ok
    fi
    limited 30 info "$top/bin/longhaul" info --json
    told program info
    for name in version git build cuda cuda_cublas cuda_nccl device; do
        text=$(member $name "$out/info.out")
        [ -z "$text" ] || row machine $name "$text" '' '' '' '' ok
    done
    row machine system "$(uname -r), $(nproc) threads, $(getconf GNU_LIBC_VERSION 2>/dev/null)" '' '' '' '' ok
    row machine bundle "$(tr '\n' ';' <"$top/contents" 2>/dev/null)" '' '' '' '' ok
    case $(member cuda "$out/info.out") in
    '' | 'no '*)
        row machine 'CUDA device' "$(member cuda "$out/info.out")" '' '' '' '' 'none'
        finish
        ;;
    esac
}

# family NAME LIMIT [SUFFIX]: the tests of a family of operations.
family() {
    LONGHAUL_TEST_BACKEND=cuda LONGHAUL_TEST_TABLE=$out/$1.table CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-0.25} \
        OMP_NUM_THREADS=2 limited "$2" "ops-$1${3:-}" "$top/bin/ops" "$1"
}

operations() {
    local name names tests=()
    limited 20 families "$top/bin/ops"
    told program families
    names=${FIRST_HOUR_FAMILIES:-$(cat "$out/families.out")}
    names=$(tr ' ' '\n' <<<"$names" | awk '$1 == "bits" { first = $1 } $1 != "bits" { rest = rest " " $1 } END { print first rest }') # the longest first
    for name in $names; do
        while [ "$(jobs -rp | wc -l)" -ge 4 ]; do sleep 0.1; done
        family "$name" $((seconds / 4)) &
        tests+=($!)
    done
    [ ${#tests[@]} = 0 ] || wait "${tests[@]}"
    for name in $names; do
        told program "ops-$name"
        [ "$(state "ops-$name")" = ok ] || {
            family "$name" $((seconds / 20)) -alone
            told program "ops-$name-alone"
        }
    done
    # operations of several families once; and those that no family has run
    tr '{,' '\n' <"$out/info.out" | sed -n '/^"operations":/,$s/^"\([a-z_0-9]*\)":".*/\1/p' >"$out/operations.names"
    # shellcheck disable=SC2046 # names of files of ours
    awk -F '\t' -v OFS='\t' '
        function size(s) { return s ~ /^-?(nan|inf)/ ? 1e99 : s + 0 }
        FILENAME ~ /names$/ { all[++n] = $1; next }
        {
            if (!($1 in calls)) order[++m] = $1
            calls[$1] += $2
            compared[$1] += $3
            if (!($1 in worst) || size($4) > size(worst[$1])) worst[$1] = $4
            if ($5 != "ok") wrong[$1] = $5
        }
        END {
            for (i = 1; i <= m; i++) {
                o = order[i]
                print "operation", o, "", calls[o], "calls", compared[o], worst[o], o in wrong ? wrong[o] : "ok"
            }
            for (i = 1; i <= n; i++) if (!(all[i] in calls)) print "operation", all[i], "", 0, "calls", 0, "", "-not run"
        }' "$out/operations.names" $(find "$out" -maxdepth 1 -name '*.table' | sort) >>"$rows"
}

# Whole models against `cpu`, small ones: on one rank, and on two that share the card.
models() {
    LONGHAUL_TEST_BACKEND=cuda LONGHAUL_TEST_SMALL=1 limited "$seconds" models "$top/bin/models"
    told program models
}
two_ranks() {
    if [ ! -e "$top/bin/mpirun" ]; then
        row program two-ranks '' '' '' '' '' '-the bundle has no mpirun'
        return
    fi
    LONGHAUL_TEST_BACKEND=cuda LONGHAUL_TEST_SMALL=1 OMP_NUM_THREADS=2 limited "$seconds" two-ranks \
        "$top/bin/mpirun" -n 2 "$top/bin/models"
    told program two-ranks
}

# TOOL FAMILY [KERNEL]: memcheck ends with whole families in time; the other tools follow every access to shared memory and
# every barrier, so they get the kernels that depend on these, one at a time.
sanitized=('memcheck attention' 'memcheck packed' 'memcheck cache' 'memcheck select' 'memcheck columns'
    'racecheck select contest_kernel' 'racecheck cache list_kernel' 'racecheck columns fair_kernel'
    'racecheck attention split_kernel' 'racecheck attention attend_kernel' 'racecheck attention hopper_kernel' 'racecheck fused stream_kernel'
    'racecheck linear stream_mma_kernel' 'racecheck packed packed_kernel' 'racecheck logits sort_kernel' 'racecheck shares refine_threshold_kernel'
    'synccheck cache move_kernel' 'synccheck attention attend_kernel' 'synccheck attention hopper_kernel')
launches=20

# sanitize PROGRAM TOOL FAMILY [KERNEL], as TOOL-FAMILY or TOOL-KERNEL
sanitize() {
    local program=$1 tool=$2 name=$3 kernel=${4:-} filter=()
    [ -z "$kernel" ] || filter=(--kernel-name "kns=$kernel" --launch-count "$launches")
    LONGHAUL_TEST_SMALL=1 LONGHAUL_TEST_BACKEND=cuda CK_FORK=no OMP_NUM_THREADS=2 limited $((seconds / 12)) \
        "$tool-${kernel:-$name}" "$program" --tool "$tool" "${filter[@]}" --target-processes all --error-exitcode 9 \
        "$top/bin/ops" "$name"
}

sanitizer() {
    local words program run tests=()
    program=$(command -v compute-sanitizer || find /usr/local/cuda*/bin -name compute-sanitizer 2>/dev/null | head -n 1)
    if [ -z "$program" ]; then
        row sanitizer compute-sanitizer '' '' '' '' '' '-not on this machine'
        return
    fi
    for run in "${sanitized[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge 4 ]; do sleep 0.1; done
        # shellcheck disable=SC2086 # words of a run
        sanitize "$program" $run &
        tests+=($!)
    done
    wait "${tests[@]}"
    for run in "${sanitized[@]}"; do
        read -ra words <<<"$run"
        run=${words[0]}-${words[2]:-${words[1]}}
        if [ "$(state "$run")" = 'out of time' ]; then
            row sanitizer "$run" '' '' '' '' '' '-out of time'
        else
            told sanitizer "$run"
        fi
    done
}

# measured NAME COMMAND…: a program that prints JSON of `bench`, as OUT/NAME.tsv: name, shape, median and fastest
# seconds, GB/s, TFLOP/s, share, value, limit.
measured() {
    local name=$1
    shift
    limited "$seconds" "$name" "$@"
    told program "$name"
    awk -v OFS='\t' '
        BEGIN { RS = "{" }
        function text(key) { return match($0, "\"" key "\":\"[^\"]*\"") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5) : "" }
        function number(key,   s) {
            if (!match($0, "\"" key "\":[^,}]*")) return ""
            s = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
            return s == "null" ? "" : s
        }
        /"name":/ { print text("name"), text("shape"), number("median_s"), number("fastest_s"), number("gb_per_s"), number("tflops_per_s"), number("share"), number("value"), number("limit") }
    ' "$out/$name.out" >"$out/$name.tsv"
}

# figure NAME FILE ROW SHAPE VALUE UNIT [LIMIT [RATIO]]: the first row of that name whose shape has these words; VALUE,
# LIMIT and RATIO are formulas of awk over the columns of OUT/FILE.tsv.
figure() {
    local found
    found=$(awk -F '\t' -v OFS='\t' -v name="$1" -v of="$3" -v shape="$4" -v unit="$6" '
        function short(x) { return x == "" ? "" : sprintf("%.4g", x) }
        $1 == of && index($2, shape) {
            median = $3; fastest = $4; gb = $5; tflop = $6; share = $7; value = $8; limit = $9; none = ""
            print "figure", name, $2, short('"$5"'), unit, short('"${7:-none}"'), short('"${8:-none}"'), "ok"
            exit
        }' "$out/$2.tsv")
    [ -z "$found" ] || printf '%s\n' "$found" >>"$rows"
}

speeds() {
    measured operations "$top/bin/longhaul" bench operations --device cuda --json "${sized[@]}" attend_block products
    figure 'copy rate' operations copy '' gb GB/s
    figure 'GEMM rate, bf16' operations gemm bf16 tflop TFLOP/s
    figure 'attention' operations attend_block "$attention" tflop TFLOP/s tflop/share share
    figure 'attention of a chunk' operations attend_block "$chunk" tflop TFLOP/s tflop/share share
    figure 'attention in a window' operations attend_block ', window of' tflop TFLOP/s tflop/share share
    figure 'attention with a soft cap' operations attend_block ', soft cap of' tflop TFLOP/s tflop/share share
    figure 'products of a step' operations products ' 1 sequence' gb GB/s gb/share share
    figure 'products of a step, 4 sequences' operations products ' 4 sequences' gb GB/s gb/share share
    figure 'products of a step, 16 sequences' operations products ' 16 sequences' gb GB/s gb/share share
}

# run NAME CONTEXT OPTION…
run() {
    local name=$1 context=$2
    shift 2
    measured "$name" "$top/bin/longhaul" bench run --device cuda -m $model --context "$context" --max-new $steps \
        --budget $budget --json "${sized[@]}" "$@"
}

# prompt NAME CONTEXT: the figures of a run's prefill, the fastest one.
prompt() {
    figure "prefill of $2 tokens, warm" "$1" prefill full fastest s 'share * median' 'share * median / fastest'
    figure "share of eviction in prefill, $2 tokens" "$1" 'share of eviction in prefill' '' value ''
}

# decode_step NAME FILE SHAPE
decode_step() {
    figure "$1" "$2" 'decode step' "$3" '1e3 * median' ms '1e3 * median * share' share
}

# batch NUMBER CONTEXT
batch() {
    run "batch-$1" "$2" --batch "$1" --repeat 1
    decode_step "decode step, full, batch $1" "batch-$1" full
    decode_step "decode step, $budget entries, batch $1" "batch-$1" "$budget"
}

# The first prompt of a process is cold.
short_prompt() {
    local first
    run short $short --warm-up 0 --repeat 3
    prompt short $short
    first=$(awk -F '\t' '$1 == "seconds of the first prefill" && $2 == "full" { print $8; exit }' "$out/short.tsv")
    [ -z "$first" ] || figure "prefill of $short tokens, cold" short prefill full "$first" s 'share * median' \
        "share * median / $first"
}

# Two prompts, one with each cache, after short ones that are not timed.
long_prompt() {
    run long $long --warm-up $warm --repeat 1
    prompt long $long
    decode_step "decode step, full, after $long tokens" long full
    decode_step "decode step, $budget entries" long "$budget"
    figure 'pay-off of a step' long 'pay-off of a step' '' value '' limit 'value / limit'
    figure 'launches of a step' long 'launches of a step' "$budget" value ''
    figure 'time of a launch beyond the minimum' long 'microseconds of a launch of a step, beyond the minimum' "$budget" value us
    figure 'peak memory, counted' long 'peak memory in GiB, counted; at most in use' '' value GiB limit 'limit > 0 ? value / limit : none'
}

# median_of FILE ROW SHAPE: the seconds of a row.
median_of() {
    awk -F '\t' -v of="$2" -v shape="$3" '$1 == of && index($2, shape) { print $3; exit }' "$out/$1.tsv"
}

# The same model with weights of few bits: its step beside the one of the long prompt, and its prefill beside the short
# prompt's; at most the bytes of a step and the time of a prefill allow.
few_bits() {
    local step prefill
    run few-bits $short --weights $bits --warm-up $warm --repeat 2
    decode_step "decode step, $budget entries, $bits" few-bits "$budget"
    figure "prefill of $short tokens, $bits" few-bits prefill full fastest s 'share * median' 'share * median / fastest'
    step=$(median_of long 'decode step' "$budget")
    prefill=$(median_of short prefill full)
    [ -z "$step" ] || figure "decode step, $budget entries, $bits beside bf16" few-bits 'decode step' "$budget" \
        "$step / median" times "$step / median / share" share
    [ -z "$prefill" ] || figure "prefill of $short tokens, $bits beside bf16" few-bits prefill full \
        "$prefill / median" times 1 "$prefill / median"
}

unpack
begin 8 'the machine and its libraries'
machine
begin 24 'operations against ref'
operations
begin 8 'whole models against cpu'
models
begin 13 compute-sanitizer
sanitizer
begin 8 'rates and attention'
speeds
begin 8 "a prompt of $short tokens"
short_prompt
begin 12 "a prompt of $long tokens"
long_prompt
begin 8 "weights of few bits"
few_bits
begin 10 "batches of $few and $many"
batch $few $few_at
batch $many $many_at
begin 100 'two ranks on one card'
two_ranks
step=complete
trap - TERM INT EXIT
verdict complete
printf '[%3d s] %s\n' "$SECONDS" "$(head -n 1 "$out/verdict.md" | cut -c 3-)"
grep -q '"failures": 0,' "$out/verdict.json"
