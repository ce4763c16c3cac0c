#!/usr/bin/env bash
# From a fresh Debian 12 machine to an answer: installs what is missing, builds, fetches a small real model, hides one
# sentence in 7,000 tokens of a licence and asks for it, on two MPI ranks: with the full cache, with 256 entries per head,
# and with a tenth of the cache that was chosen before the question came. As root or with sudo; about six minutes on two
# cores. Can be repeated: finished steps are skipped.
set -euo pipefail
# shellcheck source=jobs/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 0 ] || fail "usage: jobs/demo.sh"

folder=$root/build/demo
model=$folder/smollm2.h5
document=$folder/document.txt
prompt=$folder/prompt.txt
text=/usr/share/common-licenses/GPL-3
text_bytes=32400 # 7,000 tokens with the question and the template
sentence="The secret passphrase for the vault is 'amber giraffe 4172'."
question="What is the secret passphrase for the vault?"
budget=256
later_budget=10%

# The licence with the sentence in its middle, after a paragraph; and with the question at the end.
write_prompts() {
    head -c "$text_bytes" "$text" | awk -v sentence="$sentence" -v middle="$((text_bytes / 2))" '
        { print; at += length($0) + 1 }
        !hidden && at > middle && $0 == "" { print "  " sentence "\n"; hidden = 1 }' >"$document"
    printf '\n%s\n' "$question" | cat "$document" - >"$prompt"
}

# answer FILE OPTION…: writes the answer as JSON.
answer() {
    local file=$1
    shift
    mpirun -n 2 "$root/build/longhaul" generate -m "$model" --chat --max-new 32 --json "$@" >"$file"
}

# run NAME OPTION…: makes one row of the table, stored as $folder/NAME.json.
run() {
    local name=$1
    shift
    say "answering on 2 ranks: $name"
    watched "$logs/$name.log" answer "$folder/$name.json" "$@" || {
        tail -n 20 "$logs/$name.log" >&2
        fail "the run '$name' failed"
    }
}

table() {
    python3 - "$folder" "$@" <<'PYTHON'
import json, sys

folder, rows = sys.argv[1], sys.argv[2:]
form = "{:<28} {:>12} {:>10} {:>10} {:>8}  {}"
print(form.format("policy", "KV kept", "of", "prefill", "decode", "answer"))
runs = []
for row in rows:
    name, shown = row.split("=")
    with open(f"{folder}/{name}.json") as f:
        run = json.load(f)
    runs.append(run)
    kept, all_kv = sum(run["kv"]["bytes_kept"]), sum(run["kv"]["bytes"])
    time = run["timing"]
    print(form.format(shown, f"{kept / 2**20:.2f} MiB", f"{all_kv / 2**20:.0f} MiB", f"{time['prefill_s']:.1f} s",
                      f"{time['decode_s']:.1f} s", run["text"].strip().replace("\n", " ")))
print(f"\n{runs[0]['prompt_tokens']} tokens of prompt, {runs[0]['ranks']} ranks")
PYTHON
}

install "${packages[@]}" python3-pip unzip
build release build longhaul
fetch_model "$model"
cp "$root/examples/smollm2.scores.h5" "$folder" # of 'longhaul learn': which entries questions to come ask for
write_prompts
say "question: $question (hidden in the prompt: $sentence)"
run full -f "$prompt"
run longhaul -f "$prompt" --budget $budget
run streaming -f "$prompt" --policy streaming --budget $budget
run later -f "$document" --question "$question" --budget $later_budget
run snapkv-later -f "$document" --question "$question" --budget $later_budget --policy snapkv
say "done"
echo
table full=full "longhaul=longhaul, $budget entries" "streaming=streaming, $budget entries" \
    "later=learnt, $later_budget, asked after" "snapkv-later=snapkv, $later_budget, asked after"
cat <<EOF

And now you:
  cd $root
  build/longhaul generate -m build/demo/smollm2.h5 -f $text --budget 512 -p 'Who publishes this licence?'
  build/longhaul import FOLDER_OR_GGUF -o m.h5    # a model of your own
EOF
