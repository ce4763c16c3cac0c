#!/bin/bash
# add_source.sh BUILD: adds a score with an option of its own as docs/adding.md says, in a copy of src: writes the file
# and the word in the list, compiles what depends on the list, links the program with the other objects of BUILD (made
# by Ninja), runs a prompt with the score, and prints the files of src that changed. There must be 2.
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
[ -f "$build/build.ninja" ] || { echo "skipped: '$build' is not a build of Ninja"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/src" "$work/src"

cat > "$work/src/evict/source_large_norm.c" <<'C'
/* Keys or values of large norm first. */
#include "evict/evict_impl.h"

typedef struct norm_params {
    int of_values;
} norm_params;

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const norm_params *p = lh_params_of(&ev->policy.methods, LH_METHOD_large_norm);
    LH_RUN(&ev->exec, entry_norms, .y = lh_slot_rows(scores, 1, ev->ld), .kv = job->entries, .last = LH_ALL_ENTRIES,
           .part = p->of_values ? LH_PART_VALUE : LH_PART_KEY, .kind = LH_NORM_SQUARE);
}

static const lh_part parts[] = {{LH_PART_WORD(large_norm, norm_params, of_values), .def = "keys", .row.name = "norm-of",
                                 .row.choices = (const char *const[]){"keys", "values", NULL},
                                 .row.help = "Norms that score: of keys or of values."},
                                {.row.name = NULL}};

static const lh_source source = {.score = score};

const lh_method lh_method_large_norm = {.word = "large-norm",
                                        .help = "Entries of large norm first.",
                                        .parts = parts,
                                        .traits = LH_NEEDS_ENTRIES,
                                        .source = &source};
C
echo 'LH_METHOD(large_norm)' >> "$work/src/policies/method_list.h"

# compile FILE LIKE: FILE of the copy, by the command that compiles LIKE, a file of the same room.
compile()
{
    local room object command
    room=$(cut -d/ -f1 <<< "$2")
    [ "$room" != lab ] || room=$(cut -d/ -f2 <<< "$2")
    object=$(cd "$build" && find src -path "*/lh_$room.dir/*" -name "$(basename "$2").o")
    command=$(cd "$build" && ninja -t commands "$object" | tail -1)
    command=${command//$source\/src/$work/src}
    command=${command//$object/$work/${1//\//+}.o}
    command=${command//\/$2/\/$1}
    (cd "$build" && bash -c "$command")
    objects[$object]=$work/${2//\//+}.o
}

declare -A objects
compile evict/source_large_norm.c evict/methods.c
added=$work/evict+source_large_norm.c.o
for file in $(cd "$work/src" && grep -rlE '\bLH_METHODS\b|method_list\.h' --include='*.c' .); do
    compile "${file#./}" "${file#./}"
done
link=$(cd "$build" && ninja -t commands longhaul | tail -1)
link=$(sed -E 's/ && (cd|:|cp|[^ ]*cmake).*$//; s/^: && //' <<< "$link")
for object in "${!objects[@]}"; do link=${link/ $object / ${objects[$object]} }; done
link=${link/ -o longhaul / $added -o $work/longhaul }
(cd "$build" && bash -c "$link")

run() { OMP_NUM_THREADS=1 "$work/longhaul" generate -m random:tiny --prompt-tokens "$work/ids" --max-new 3 --json -q "$@"; }
seq -s ' ' 3 90 > "$work/ids"
for of in keys values; do
    run --statistic large-norm --policy knorm --norm-of $of --budget 40 --keep-sets "$work/$of.h5" > "$work/$of.json"
    grep -q "\"norm-of\": *\"$of\"" "$work/$of.json" || { echo "the result does not name '--norm-of $of'"; exit 1; }
done
! cmp -s "$work/keys.h5" "$work/values.h5" || { echo "'--norm-of' has no effect"; exit 1; }
! run --policy knorm --norm-of values --budget 40 2> "$work/message" || { echo "'--norm-of' of another score is accepted"; exit 1; }
grep -q "'--statistic large-norm'" "$work/message" || { cat "$work/message"; exit 1; }
"$work/longhaul" generate --help all | grep -q -- '--norm-of' || { echo "'--help all' lacks '--norm-of'"; exit 1; }

changed=$(diff -rq "$source/src" "$work/src" || true)
echo "$changed"
[ "$(wc -l <<< "$changed")" = 2 ]
