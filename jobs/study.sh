#!/usr/bin/env bash
# From a fresh Debian 12 machine to a study of eviction policies: installs what is missing, builds, fetches a small real
# model, records how it reads a text and answers a question about it, replays policies at seven budgets on the trace, lets
# the model go on with what each keeps, and draws one page of it. As root or with sudo; about five minutes on two cores. Can be repeated: finished steps are skipped.
set -euo pipefail
# shellcheck source=jobs/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -le 1 ] || fail "usage: jobs/study.sh [TEXT]"

folder=$root/build/study
model=$root/build/demo/smollm2.h5
text=${1:-/usr/share/common-licenses/GPL-3}
question="What does this text allow, and what does it demand?"
policies=snapkv,ada-snapkv,critical-ada-snapkv,h2o,tova,roco,streaming,keydiff,longhaul

install "${packages[@]}" python3-pip unzip
build release build longhaul
fetch_model "$model"
mkdir -p "$folder"
head -c 32000 "$text" >"$folder/text" # some 7,000 tokens
say "recording: $text, 64 tokens of an answer"
watched "$logs/trace.log" "$root/build/longhaul" trace -m "$model" --chat -f "$folder/text" --question "$question" \
    --scenario context-only -n 64 --ignore-eos -o "$folder/study.trace.h5" || fail "$(tail -n 20 "$logs/trace.log")"
say "replaying $policies"
"$root/build/longhaul" replay "$folder/study.trace.h5" -m "$model" --policy "$policies" -o "$folder/study.analysis.h5"
"$root/build/longhaul" report "$folder/study.analysis.h5" -o "$folder/report.html"
say "done: $folder/report.html"
cat <<EOF

And now you:
  cd $root
  build/longhaul replay build/study/study.trace.h5 --policy 'snapkv --pool-size 31,h2o' --budget 10%
  jobs/study.sh FILE    # another text
EOF
