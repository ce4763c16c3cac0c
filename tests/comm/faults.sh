#!/bin/bash
# faults.sh MPIEXEC PROGRAM: ranks hang, die, fail and leave; every run must end in time, with the right exit code and
# one message that names rank, operation and step.
mpiexec=$1 program=$2
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
failures=0

# run SECONDS RANKS RANK PLAN TIMEOUT_S: the exit code in $code, in at most SECONDS.
run() {
    local most=$1 ranks=$2
    shift 2
    what="$ranks ranks, rank $1, plan $2, time-out $3"
    local start=$SECONDS
    timeout 60 "$mpiexec" -n "$ranks" "$program" "$@" >"$out/out" 2>"$out/err" </dev/null
    code=$?
    took=$((SECONDS - start))
    check "ends in $most s, not $took" test "$took" -le "$most"
}

check() {
    local law=$1
    shift
    if ! "$@"; then
        echo "FAILED: $what: $law (exit code $code)"
        sed 's/^/    /' "$out/err"
        failures=$((failures + 1))
    fi
}

ends_with() { check "exit code $1" test "$code" = "$1"; }
says() { check "says '$1'" grep -q -- "$1" "$out/err"; }
says_once() { check "says '$1' once" test "$(grep -c -- "$1" "$out/err")" = 1; }
prints() { check "prints '$1'" grep -q -- "$1" "$out/out"; }

for ranks in 1 2 4; do
    run 20 $ranks 0 none 60
    ends_with 0
    prints "all steps done"
done

# A delay is not a failure.
run 20 3 1 delay:7:0.6 60
ends_with 0
prints "all steps done"

# Time in which the whole job was suspended does not count, nor that of a rank which may take any time.
for plan in suspend:2 late:2; do
    for ranks in 1 2 3 4; do
        run 20 $ranks $((ranks - 1)) $plan 1.5
        ends_with 0
        prints "all steps done"
        check "is quiet" test "$(grep -c "longhaul: " "$out/err")" = 0
    done
done

# A rank that hangs: collective 10 is the all-reduce of step 2. When the time-out is over one of the others says so.
for bad in 0 1 2; do
    run 20 3 $bad drop:10 1.5
    ends_with 7
    says "rank [^$bad] on .* has waited [1-9][0-9]* s in all-reduce of 32 bytes in 'loop 2': rank $bad does not take part"
    says_once "longhaul: "
done

# A rank whose process is stopped inside the collective, where it counts as waiting.
for bad in 0 1 2; do
    run 20 3 $bad stop:10 2
    ends_with 7
    says "rank [^$bad] on .*: rank $bad does not take part, its process [0-9]* has not run for [1-9] s, its last step is 'loop 2'"
    says_once "longhaul: "
done

# A rank that is killed or goes away without a word: noticed at once, whatever the time-out.
for plan in kill:11 alone:2; do
    for bad in 0 1 2; do
        run 20 3 $bad $plan 600
        check "an exit code that tells" test "$code" = 42 -o "$code" = 3
        says "rank $bad (process [0-9]* on .*) has ended while rank [^$bad] waited in .* in 'loop 2'"
        says_once "longhaul: "
    done
done

# A collective that fails on one rank: that rank says why, the others do not wait for ever.
for bad in 0 2; do
    run 20 3 $bad fail:10 600
    ends_with 7
    says "rank $bad on .*: collective 10 fails, as it was told"
    says_once "longhaul: "
done

# A rank that fails alone closes what it shares with the others, and says why; nobody waits for the time-out.
for ranks in 2 4; do
    for bad in 0 1; do
        run 20 $ranks $bad own:3 600
        ends_with 4
        says "rank $bad on .*: a bad file at step 3"
        says_once "longhaul: "
    done
done

# What all agree on is told once, by rank 0, with where it happened; all end with its code.
for bad in 0 2; do
    run 20 3 $bad agreed:3 600
    ends_with 4
    says "a bad file at step 3"
    says_once "longhaul: "
    [ $bad = 0 ] || says "longhaul: rank 2 on .*: a bad file at step 3"
done

# Ctrl-C: all leave without a collective, or rank 0 alone; the code survives, and rank 0 is not cut short.
for plan in leave:3 first:3; do
    for ranks in 1 2 4; do
        run 20 $ranks 0 $plan 600
        ends_with 75
        prints "written before leaving"
        check "is quiet" test "$(grep -c "longhaul: " "$out/err")" = 0
    done
done

if [ $failures = 0 ]; then echo "all faults end well"; fi
exit $((failures > 0))
