#!/usr/bin/env bash
# Budgets of heads and layers for a model and a folder of texts: records how the model reads passages of half of the
# texts, learns from these traces which heads need how many entries, and prints what that gains on the other half, which
# it has not seen. Some three minutes for a model of 135M on two cores.
#
#   jobs/tune.sh MODEL.h5 FOLDER [BUDGET] [RANKS]     # *.txt, *.md and *.markdown of FOLDER; 10%, 1 rank
#
# Writes tune/ in the current folder: budgets.csv for --head-budget and --layer-budget, and the traces. CONTEXT=N: tokens
# of a passage (1500). POLICY=TEXT: a policy with the same budget for all heads, such as "keydiff --evict never", instead
# of the default one. LONGHAUL=PROGRAM: instead of the one that is built here.
set -euo pipefail
# shellcheck source=jobs/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [ $# -lt 2 ] || [ $# -gt 4 ]; then fail "usage: jobs/tune.sh MODEL.h5 FOLDER [BUDGET] [RANKS]"; fi

model=$1
texts=$2
budget=${3:-10%}
ranks=${4:-1}
context=${CONTEXT:-1500}
after=128   # tokens after a passage, whose attention judges evictions
passages=6  # that budgets are learnt from
windows=8   # of the other texts, that judge them
policy=${POLICY:-longhaul --head-budget uniform}
[[ $policy != *,* ]] || fail "POLICY is one policy, not a list: '$policy' has a comma"
folder=tune # below the current folder: policies name its file, and words cannot have spaces
longhaul=${LONGHAUL:-$root/build/longhaul}

on_ranks=()
[ "$ranks" = 1 ] || on_ranks=(mpirun --bind-to none -n "$ranks")

# Without what is left of a character that was cut.
whole_characters() { iconv -c -f UTF-8 -t UTF-8 || true; }

# Files of the folder for which an expression of find is true, each with a zero byte after it, in the order of their bytes.
visible() { find -L "$texts" -mindepth 1 -maxdepth 1 ! -name '.*' "$@" -print0 | LC_ALL=C sort -z; }

# Every second text is learnt from, the others judge; of a single one, its first half is learnt from. A folder's texts are
# those that `longhaul eval` takes.
split_texts() {
    local all=() others=() i half is_text=(-type f '(' -iname '*.txt' -o -iname '*.md' -o -iname '*.markdown' ')')
    mapfile -t -d '' all < <(visible "${is_text[@]}")
    mapfile -t -d '' others < <(visible ! -type d ! '(' "${is_text[@]}" ')')
    [ ${#others[@]} = 0 ] || say "no *.txt, *.md or *.markdown, and left out: ${others[*]:0:5}$([ ${#others[@]} -le 5 ] || echo " and $((${#others[@]} - 5)) more")"
    [ ${#all[@]} -gt 0 ] || fail "there is no *.txt, *.md or *.markdown in '$texts'"
    rm -rf "$folder/learn" "$folder/judge"
    mkdir -p "$folder/learn" "$folder/judge"
    rm -f "$folder"/*.trace.h5
    if [ ${#all[@]} = 1 ]; then
        half=$(($(wc -c <"${all[0]}") / 2))
        head -c "$half" "${all[0]}" | whole_characters >"$folder/learn/text.txt"
        tail -c +"$((half + 1))" "${all[0]}" | whole_characters >"$folder/judge/text.txt"
    fi
    for ((i = 0; i < ${#all[@]} && ${#all[@]} > 1; i++)); do
        cp -- "${all[i]}" "$folder/$([ $((i % 2)) = 0 ] && echo learn || echo judge)/$(printf %06d "$i").txt"
    done
}

# One id a line.
ids() { "$longhaul" tokenize -m "$model" -q "$@" | tr -s '[:space:]' '\n'; }

# Ids of passages and of what follows them, as 1.ids and 1.next, …: spread evenly over the texts.
cut_passages() {
    local text bos n at i=0 list=$folder/passages
    bos=$(($(ids --bos -p a | wc -l) - $(ids -p a | wc -l))) # 1: texts begin with such a token
    ids --bos -p a | awk -v n="$bos" 'NR <= n' >"$folder/bos"
    : >"$list"
    for text in "$folder"/learn/*; do
        ids -f "$text" >"$text.ids"
        n=$(wc -l <"$text.ids")
        for ((at = 1; at + context + after <= n + 1; at += context + after)); do echo "$at $text.ids" >>"$list"; done
    done
    n=$(wc -l <"$list")
    [ "$n" -gt 0 ] || fail "no text to learn from in '$texts' has the $((context + after)) tokens of a passage: CONTEXT=N makes them shorter"
    [ "$n" -ge "$passages" ] || passages=$n
    while read -r at text; do
        i=$((i + 1))
        {
            cat "$folder/bos"
            sed -n "$at,$((at + context - 1))p" "$text"
        } >"$folder/$i.ids"
        sed -n "$((at + context)),$((at + context + after - 1))p" "$text" >"$folder/$i.next"
    done < <(awk -v n="$n" -v k="$passages" 'BEGIN { j = 0 } NR == int((2 * j + 1) * n / (2 * k)) + 1 { print; j++ }' "$list")
}

record() {
    local i
    for ((i = 1; i <= passages; i++)); do
        say "recording passage $i of $passages"
        "${on_ranks[@]}" "$longhaul" trace -m "$model" --prompt-tokens "$folder/$i.ids" --force-tokens "$folder/$i.next" \
            -n "$after" --ignore-eos -q -o "$folder/$i.trace.h5" >"$logs/answer"
    done
}

# Perplexity, and nats per token more than with the full cache, of the rows of judged.csv.
table() {
    local names=("full cache" "same budget for all" "longhaul" "learnt budgets")
    printf '%-20s %12s %12s\n' "at $budget" perplexity "nats more"
    tail -n +2 "$folder/judged.csv" | cut -d, -f6,8 |
        while IFS=, read -r perplexity more; do
            printf '%-20s %12.3f %12.4f\n' "${names[0]}" "$perplexity" "$more"
            names=("${names[@]:1}")
        done
}

if [ -z "${LONGHAUL:-}" ]; then
    install "${packages[@]}"
    build release build longhaul
fi
split_texts
cut_passages
record
say "learning budgets at $budget"
"${on_ranks[@]}" "$longhaul" replay "$folder"/*.trace.h5 --policy "$policy" --budget "$budget" --make-budgets "$folder/budgets.csv"
tuned="${policy/ --head-budget uniform/} --head-budget $folder/budgets.csv --layer-budget $folder/budgets.csv"
say "judging them on the other texts"
"${on_ranks[@]}" "$longhaul" eval ppl -m "$model" --text "$folder/judge" --context "$context" --score 256 \
    --count "$windows" --policy "$policy,longhaul,$tuned" --budget "$budget" -q --csv "$folder/judged.csv" >"$logs/judged"
say "done: $folder/budgets.csv"
echo
table
cat <<EOF

And now you:
  $longhaul generate -m $model -f FILE --policy $tuned --budget $budget
EOF
