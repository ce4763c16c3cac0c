#!/usr/bin/env bash
# Installs a build into an empty folder, builds the examples and the programs of outside/ against what is there, by
# pkg-config and by find_package, and compares what they print with the program's answer at 1 and 2 ranks:
# install.sh BUILD COMPILER CXX_COMPILER SOURCE MPIEXEC HARDENING CMAKE TINY_FOLDER
set -euo pipefail
build=$1 compiler=$2 cxx=$3 source=$4 mpiexec=$5 hardening=$6 cmake=$7 tiny_folder=$8
prefix=$(mktemp -d /tmp/longhaul-install-XXXXXX)
trap 'rm -rf "$prefix"' EXIT
fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

"$cmake" --install "$build" --prefix "$prefix" >/dev/null
gzip -t "$prefix"/share/man/man1/longhaul{,-generate}.1.gz
[ -s "$prefix/share/bash-completion/completions/longhaul" ]
longhaul=$prefix/bin/longhaul
"$longhaul" --version
headers=$(cd "$prefix/include" && find . -type f)
headers=$(sort <<<"$headers" | tr '\n' ' ')
[ "$headers" = "./longhaul/longhaul.h ./longhaul/mpi.h " ] || fail "headers are installed that are not the interface: $headers"

config=$(dirname "$(find "$prefix" -name longhaul.pc)")
flags() { PKG_CONFIG_PATH=$config pkg-config "$@" longhaul; }
library=$(flags --variable=libdir)/liblonghaul.so

"$(dirname "${BASH_SOURCE[0]}")/binaries.sh" "$hardening" "$longhaul" "$library"

# The library exports what the header declares, no more and no less.
declared=$(sed 's,/\*.*,,; s,^ \*.*,,' "$prefix/include/longhaul/longhaul.h" | grep -oE '\blh_[a-z0-9_]+\(' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort -u)
[ "$declared" = "$exported" ] || fail "exported is not what is declared: $(diff <(echo "$declared") <(echo "$exported"))"

# shellcheck disable=SC2046
"$compiler" -std=c17 -Wall -Wextra -Werror "$source/examples/generate.c" -o "$prefix/generate" $(flags --cflags --libs)
"$cmake" -S "$source/tests/cli/outside" -B "$prefix/outside" -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLES="$source/examples" \
    -DCMAKE_C_COMPILER="$compiler" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
"$cmake" --build "$prefix/outside" >"$prefix/built" || fail "a project outside does not build: $(cat "$prefix/built")"
export LD_LIBRARY_PATH=${library%/*}
"$longhaul" import --random tiny -o "$prefix/tiny.h5" -q
{
    echo layer,head,weight
    for layer in 0 1 2 3; do printf '%s,%s,%s\n' "$layer" 0 1 "$layer" 1 2; done
} >"$prefix/heads.csv"
(cd "$prefix" && "$tiny_folder" chatml && "$longhaul" import chatml -o chatml.h5 -q)
prompt="A prompt that is longer than the budget of its policy: $(seq -s ' ' 60)"
policy="ada-snapkv --budget 40"
request=(-m "$prefix/tiny.h5" -q -p "$prompt" --policy ada-snapkv --budget 40 -n 32)
for ranks in 1 2; do
    run=("$mpiexec" -n "$ranks")
    "${run[@]}" "$longhaul" generate "${request[@]}" >"$prefix/said"
    "${run[@]}" "$longhaul" generate "${request[@]}" --json >"$prefix/json"
    "${run[@]}" "$prefix/generate" "$prefix/tiny.h5" "$policy" "$prompt" >"$prefix/answer"
    cmp "$prefix/said" <(head -n -1 "$prefix/answer") || fail "$ranks ranks: the example does not say what the program says"
    "${run[@]}" "$prefix/outside/generate" "$prefix/tiny.h5" "$policy" "$prompt" | cmp - "$prefix/answer" ||
        fail "$ranks ranks: built by CMake the example says something else"
    # on all ranks but one of a program that runs MPI itself
    "$mpiexec" -n $((ranks + 1)) "$prefix/outside/some_ranks" "$prefix/tiny.h5" "$policy" "$prompt" | cmp - "$prefix/said" ||
        fail "$ranks of $((ranks + 1)) ranks do not say what $ranks say"
    "${run[@]}" "$prefix/outside/policy" "$prefix/tiny.h5" "--budget 40 --sinks 4 --head-budget adaptive" "$prompt" >"$prefix/own$ranks"
    "${run[@]}" "$prefix/outside/defaults" "$prefix/tiny.h5" || fail "$ranks ranks: defaults"
    # questions after the eviction have the default of the program, not that of questions in the prompt
    later=(-m "$prefix/tiny.h5" -q -p "$prompt" --question "Who did it?" --question "And why?" --budget 40 -n 32)
    "${run[@]}" "$longhaul" generate "${later[@]}" >"$prefix/said"
    "${run[@]}" "$prefix/outside/ask" "$prefix/tiny.h5" "--budget 40" "$prompt" "Who did it?" "And why?" | cmp - "$prefix/said" ||
        fail "$ranks ranks: examples/ask.c does not say what the program says"
    "${run[@]}" "$longhaul" generate "${later[@]}" --policy longhaul 2>/dev/null | cmp -s - "$prefix/said" &&
        fail "$ranks ranks: questions that come later have the other default"
    "${run[@]}" "$prefix/outside/later" "$prefix/tiny.h5" || fail "$ranks ranks: the defaults of sessions"
    "${run[@]}" "$prefix/outside/mistakes" "$prefix/tiny.h5" "$prefix/heads.csv" || fail "$ranks ranks: mistakes of a program"
    "${run[@]}" "$prefix/outside/threads" "$prefix/tiny.h5" || fail "$ranks ranks: threads and forks of a program"
    # a chat as in the program, and by default
    for mode in auto on off; do
        for text in "Who did it?" "<|im_start|>user
Who?<|im_end|>"; do
            "${run[@]}" "$longhaul" generate -m "$prefix/chatml.h5" -q -n 12 --chat="$mode" -p "$text" >"$prefix/said"
            "${run[@]}" "$prefix/outside/chat" "$prefix/chatml.h5" "$mode" "$text" | cmp - "$prefix/said" ||
                fail "$ranks ranks: a chat that is $mode is not that of the program"
        done
    done
    tail -n 1 "$prefix/answer"
    number() { grep -oE "\"$1\": *[0-9]+" "$prefix/json" | grep -oE '[0-9]+$'; }
    [ "$(tail -n 1 "$prefix/answer")" = "$(number model_entries_kept) of $(number model_entries) entries kept" ] ||
        fail "$ranks ranks: the example keeps other entries than the program"
done
for ranks in 1 2 3 4; do
    "$mpiexec" -n "$ranks" "$prefix/outside/whole" "$prefix/chatml.h5" "$prefix" || fail "$ranks ranks: files, forks, steps of many"
done
status=0
"$prefix/generate" "$prefix/tiny.h5" "ada-snapvk --budget 40" "$prompt" 2>"$prefix/error" || status=$?
[ "$status" = 2 ] && grep -q "did you mean 'ada-snapkv'" "$prefix/error" || fail "a wrong policy: code $status"
# A plug-in needs the header alone, and is the same policy for the program and for a program of the library.
# shellcheck disable=SC2046
"$compiler" -std=c17 -Wall -Wextra -Werror -shared -fPIC "$source/examples/snapkv.c" -o "$prefix/snapkv.so" $(flags --cflags) -lm
"$cxx" -x c++ -fsyntax-only -Wall -Wextra -Werror - $(flags --cflags) <<<'#include <longhaul/longhaul.h>
int64_t abi = longhaul_plugin.abi;'
"$longhaul" generate -m "$prefix/tiny.h5" -q -p "$prompt" --policy "$prefix/snapkv.so" --budget 40 -n 32 >"$prefix/said"
"$prefix/generate" "$prefix/tiny.h5" "$prefix/snapkv.so --budget 40" "$prompt" >"$prefix/answer"
cmp "$prefix/said" <(head -n -1 "$prefix/answer") || fail "the example with a plug-in does not say what the program says"
# A policy of one's own keeps its budget, the same entries on any number of ranks, and is asked for every head.
cmp <(sed 's/; this rank.*//' "$prefix/own1") <(sed 's/; this rank.*//' "$prefix/own2") || fail "examples/policy.c depends on the number of ranks"
property() { "$longhaul" info "$prefix/tiny.h5" --json | grep -oE "\"$1\": *[0-9]+" | grep -oE '[0-9]+$'; }
layers=$(property layers) heads=$(property kv_heads)
grep -q "^$((40 * layers * heads)) of [0-9]* entries kept; this rank has scored $((layers * heads)) heads$" "$prefix/own1" ||
    fail "examples/policy.c: $(tail -n 1 "$prefix/own1")"
"$prefix/outside/plusplus" "$prefix/tiny.h5" | grep -q '^0\.2\.0: [1-4] tokens$' || fail "from C++"
