#!/usr/bin/env bash
# shellcheck disable=SC2317 # functions that law calls
# batch.sh MPIEXEC LONGHAUL: a batch that is ended again and again, at random points and in every way, and resumed on
# other ranks, ends as one that nothing happened to: byte for byte. And what a run says when it cannot go on.
#   LONGHAUL_LONG=1   a hundred runs in place of five, and 10,000 requests in place of 400
#   FAULTS_SEED=N     the same points again
set -uo pipefail
mpiexec=$1 longhaul=$2
runs=5 many=400
[ "${LONGHAUL_LONG:-0}" = 0 ] || runs=100 many=10000
seed=${FAULTS_SEED:-$(date +%s)}
RANDOM=$((seed % 32768))
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

# law TEXT COMMAND…: the command must succeed.
law() {
    local text=$1
    shift
    "$@" >/dev/null 2>&1 && return
    echo "FAILED: $text"
    sed 's/^/    /' err 2>/dev/null | tail -n 20
    failed=1
}

# requests COUNT TOKENS: completions of several lengths, every fifth of them about one text, and one that cannot be.
requests() {
    local i
    for ((i = 0; i < $1; i++)); do
        printf '{"custom_id":"r%d",%s"method":"POST","url":"/v1/completions","body":{"prompt":"%s","max_tokens":%d}}\n' "$i" \
            "$([ $((i % 5)) != 4 ] || echo '"context_file":"book.txt",')" "$(seq -s ' ' $((i % 7 * 11 + 2)))" "$(($2 + i % 3))"
    done
    echo '{"custom_id":"none","method":"POST","url":"/v1/completions","body":{"prompt":"x","best_of":2}}'
}

options=(-m tiny.h5 -i in.jsonl --deterministic --threads 1 --ignore-eos --budget 24 --batch 4 -q)
# Whole lines; one may be in both files when a run is ended while it moves it.
lines() { grep -ahs '}$' out.jsonl out.jsonl.held | sort -u | wc -l; }
is_whole() { "$longhaul" merge out.jsonl -o - -q | cmp - whole.jsonl; }

# begin RANKS OPTION…: in the background; $run is mpiexec's or the program's own process.
begin() {
    local ranks=$1
    shift
    if [ "$ranks" = 1 ]; then
        "$longhaul" batch "${options[@]}" -o out.jsonl --resume "$@" >out 2>err &
    else
        "$mpiexec" -n "$ranks" "$longhaul" batch "${options[@]}" -o out.jsonl --resume "$@" >out 2>err &
    fi
    run=$!
}

# The processes of ranks.
ranks_of() { if [ "$1" = 1 ]; then echo "$run"; else pgrep -P "$run"; fi; }

# Waits for a run that was disturbed; $code. A launcher may stay for ever when a rank ended while MPI started: where all
# ranks of $1 have ended for ten seconds it is ended, and $code is "hung". In this shell: one beside it, ended while it
# begins, would take the trap along.
await() {
    local idle=0
    while [ "$1" -gt 1 ] && [ "$idle" -lt 50 ] && grep -qs '^State:.[^Z]' "/proc/$run/status"; do
        sleep 0.2
        idle=$((idle + 1))
        [ -z "$(pgrep -P "$run" -r D,R,S,T)" ] || idle=0
    done
    [ "$idle" -lt 50 ] || kill -KILL "$run"
    wait "$run"
    code=$?
    [ "$idle" -lt 50 ] || code=hung
}

# Waits until the run has so many lines, or has ended.
await_lines() { until [ "$(lines)" -ge "$1" ] || ! kill -0 "$run" 2>/dev/null; do sleep 0.02; done; }

# Waits for a run that must end by itself within $1 seconds, else its ranks, $victims, are ended; $code.
await_within() {
    local end=$((SECONDS + $1))
    while kill -0 "$run" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do sleep 0.05; done
    [ "$SECONDS" -lt "$end" ] || kill -KILL "${victims[@]}" 2>/dev/null
    wait "$run"
    code=$?
}

# Ends the run at a random point: one rank, all of them, or with a signal that asks for it.
disturb() {
    local ranks=$1 victims
    sleep "0.$((RANDOM % 900 + 100))"
    mapfile -t victims < <(ranks_of "$ranks")
    [ ${#victims[@]} -gt 0 ] || return
    case $((RANDOM % 4)) in
    0) how="SIGKILL to one rank" && kill -KILL "${victims[RANDOM % ${#victims[@]}]}" ;;
    1) how="SIGKILL to all" && kill -KILL "${victims[@]}" ;;
    2) how="SIGTERM to the launcher" && kill -TERM "$run" ;;
    3) how="SIGUSR1 to one rank" && kill -USR1 "${victims[RANDOM % ${#victims[@]}]}" ;;
    esac 2>/dev/null
}

"$longhaul" import --random tiny -o tiny.h5 -q || exit 1
seq -f 'This is sentence %g of a small text.' 12 >book.txt
requests 24 50 >in.jsonl
"$longhaul" batch "${options[@]}" -o whole.jsonl --ordered 2>err
law "the undisturbed run ends with code 1, for the request that cannot be" test $? = 1

ways=("3 --tp 3" "3 --tp 1" "2 --tp 1" "1" "4 --tp 2")
for ((k = 0; k < runs; k++)); do
    rm -f out.jsonl*
    ordered=''
    [ $((k % 2)) = 0 ] || ordered=--ordered
    for ((ends = 0; ends < 2; ends++)); do
        read -r -a way <<<"${ways[RANDOM % ${#ways[@]}]}"
        how=none before=$(lines)
        begin "${way[@]}" ${ordered:+"$ordered"}
        disturb "${way[0]}"
        await "${way[0]}"
        what="run $k of seed $seed, end $ends: $how, ${way[*]} $ordered"
        law "$what: nothing is lost" test "$(lines)" -ge "$before"
        # 138, or a launcher that hangs: it came before there was a run that could end by itself
        [ "$how" != "SIGUSR1 to one rank" ] ||
            law "$what: it ends with code 75, or is done ($code)" test "$code" = 75 -o "$code" = 1 -o "$code" = 138 -o "$code" = hung
    done
    begin 2 ${ordered:+"$ordered"}
    wait "$run"
    law "run $k of seed $seed: resumed, it ends ($?)" test $? = 1
    law "run $k of seed $seed: as if nothing had happened" is_whole
done

# A disk that is full, and then is not.
rm -f out.jsonl*
(
    trap '' XFSZ
    ulimit -f 12
    "$longhaul" batch "${options[@]}" -o out.jsonl 2>err
)
law "a full disk ends the run with code 6" test $? = 6
law "and is named" grep -q "cannot write 'out.jsonl'" err
law "what was complete is there" test "$(lines)" -ge 1
begin 1
wait "$run"
law "the run goes on when there is room" is_whole

# The checkpoint goes away: its weights are in memory.
rm -f out.jsonl*
cp tiny.h5 keep.h5
begin 2
await_lines 2
truncate -s 1000 tiny.h5
wait "$run"
law "a checkpoint that is cut off meanwhile ends no run ($?)" test $? = 1
law "nor changes it" is_whole
mv keep.h5 tiny.h5

# A rank that is stopped longer than others wait: while it computes, or while rank 0 alone reads what comes next, here
# many lines that cannot be requests.
cp in.jsonl all.jsonl
seq -f '{"custom_id":"bad%.0f","method":"POST","url":"/v1/completions","body":{"prompt":"x","best_of":2}}' 200000 >bad.jsonl
for case in "all 0 does not take part" "all 1 does not take part" \
    "bad 0 rank 0 does not take part, .*its last step is 'next request'"; do
    read -r input victim message <<<"$case"
    rm -f out.jsonl*
    cp "$input.jsonl" in.jsonl
    begin 3 --comm-timeout 2
    await_lines 1
    mapfile -t victims < <(ranks_of 3 | sort -n)
    kill -STOP "${victims[victim]:-}" 2>/dev/null
    await_within 60
    law "rank $victim is stopped, $input: the run ends ($code)" test "$code" = 7 -o "$code" = 1
    [ "$code" = 1 ] || law "and is named" grep -q "$message" err
    kill -KILL "${victims[@]}" 2>/dev/null
    [ "$input" = all ] || continue
    begin 1
    wait "$run"
    law "the run goes on without rank $victim" is_whole
done
cp all.jsonl in.jsonl

# Replicas: a leader that is stopped, the one that writes or another, is named by one that hears nothing of it.
for case in '2 0' '2 1' '3 0' '3 2'; do
    read -r ranks victim <<<"$case"
    rm -f out.jsonl*
    begin "$ranks" --tp 1 --comm-timeout 2
    await_lines 2
    mapfile -t victims < <(ranks_of "$ranks" | sort -n)
    kill -STOP "${victims[victim]:-}" 2>/dev/null
    await_within 60
    law "leader $victim of $ranks is stopped: the run ends ($code)" test "$code" = 7 -o "$code" = 1
    [ "$code" = 1 ] || law "and is named" grep -q "has heard nothing of rank $victim on\|does not take part" err
    kill -KILL "${victims[@]}" 2>/dev/null
    begin 2 --tp 1
    wait "$run"
    law "the run goes on without leader $victim of $ranks" is_whole
done

# One request is left: an interrupt ends the run wherever it arrives, also where there is nothing more to do.
printf '{"custom_id":"long","method":"POST","url":"/v1/completions","body":{"prompt":"x","max_tokens":100000}}\n' >in.jsonl
for case in '2 0 --tp 1' '2 1 --tp 1' '4 1 --tp 2' '4 2 --tp 2' '4 3 --tp 2'; do
    read -r ranks victim way <<<"$case"
    rm -f out.jsonl*
    # shellcheck disable=SC2086 # two words
    begin "$ranks" $way
    until [ -s out.jsonl.state ] || ! kill -0 "$run" 2>/dev/null; do sleep 0.02; done
    sleep 0.7
    mapfile -t victims < <(ranks_of "$ranks" | sort -n)
    kill -USR1 "${victims[victim]:-}" 2>/dev/null
    await_within 60
    law "SIGUSR1 to rank $victim of $ranks $way ends the run ($code)" test "$code" = 75
    law "and the state says so" grep -q '"interrupted"' out.jsonl.state
done

# An interrupt that comes when everything is done is none.
head -n 1 all.jsonl >in.jsonl
for ((k = 0; k < 5; k++)); do
    rm -f out.jsonl*
    begin 1 --sync 0
    until [ -s out.jsonl ] || ! kill -0 "$run" 2>/dev/null; do :; done
    kill -USR1 "$run" 2>/dev/null
    wait "$run"
    code=$?
    law "SIGUSR1 after the last line: the run is done ($code)" test "$code" = 0 -o "$code" = 138
    law "and the state says so" grep -q '"done"' out.jsonl.state
done

# Many requests take no more memory than few.
rm -f out.jsonl*
requests "$many" 2 >in.jsonl
begin 1
await_lines $((many / 10))
rss() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$run/status" 2>/dev/null; }
early=$(rss)
last=$early
while kill -0 "$run" 2>/dev/null; do
    late=$(rss)
    last=${late:-$last}
    sleep 0.02
done
wait "$run"
law "$many requests are done" test "$(lines)" = $((many + 1))
[ -n "${early:-}" ] && law "memory stays: $early kB after a tenth, $last kB at the end" test "$last" -le $((early + early / 10 + 4096))
echo "$runs runs disturbed with seed $seed; memory of $many requests: ${early:-?} kB after a tenth, ${last:-?} kB at the end"
exit "$failed"
