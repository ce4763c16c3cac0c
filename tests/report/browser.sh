#!/usr/bin/env bash
# browser.sh CHROMIUM LONGHAUL SAMPLE SCREENSHOTS: pages of 'report' in a headless browser. Every figure draws something,
# nothing is written to the console, no text of a hostile file runs. With LONGHAUL_SCREENSHOTS=1 screenshots to look at
# are left in SCREENSHOTS.
set -euo pipefail
chromium=$1 longhaul=$2 sample=$3 shots=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    echo "error: $*" >&2
    exit 1
}

# browse NAME PAGE [OPTIONS…]: the page as it is after its scripts, in NAME.dom; what it wrote to the console, in NAME.log.
browse() {
    local name=$1 page=$2
    shift 2
    timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$folder/profile" --virtual-time-budget=4000 --enable-logging=stderr "$@" \
        "file://$folder/$page" >"$folder/$name.dom" 2>"$folder/$name.log" || fail "the browser failed on $page"
    ! grep CONSOLE "$folder/$name.log" || fail "$page wrote to the console"
}
count() { grep -o -- "$1" "$folder/$2.dom" | wc -l; }
is() { [ "$2" = "$3" ] || fail "$1: $2, expected $3"; }

"$sample" "$folder"
"$longhaul" report "$folder/sample.h5" -o "$folder/sample.html"
"$longhaul" report "$folder/sample.h5" "$folder/hostile.h5" -o "$folder/both.html"

browse sample sample.html --dump-dom
is "figures" "$(count '<figure data-figure' sample)" 6
is "panels" "$(count '<svg class="plot w260"' sample)" 16 # two maps with one for each of eight policies
is "lines of curves" "$(count '<path class="line" d="M[0-9.]* [0-9.]*L' sample)" 32 # sixteen, each in two widths
is "maps" "$(count '<g class="cells"' sample)" 18
is "bars" "$(count '<path class="bar [^>]* d="M' sample)" 48
is "buttons of policies" "$(count 'class="policy"' sample)" 8
is "downloads" "$(count 'class="download"' sample)" 6
browse both both.html --dump-dom
! grep -q '<title>taken' "$folder/both.dom" || fail "a script of a file ran"
is "images" "$(count '<img' both)" 0
is "figures of two files" "$(count '<figure data-figure' both)" 11 # one of them of a table
grep -q 'class="scripted"' "$folder/both.dom" || fail "the page's own script did not run"

# What a reader does: hides a policy, chooses a layer, walks along a curve, and chooses a cell of a map. The page's
# own policy would refuse this script.
{
    sed 's/<meta http-equiv="Content-Security-Policy"[^>]*>//; /^<\/body>/,$d' "$folder/sample.html"
    cat <<'END'
<script>
{
const one = (s) => document.querySelector(s), count = (s) => document.querySelectorAll(s).length, facts = [];
const press = (svg, key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
one("button.policy").click();
facts.push(count(".panels svg:not(.hidden)"), one("button.policy").getAttribute("aria-pressed"));
one("select[name=layer]").value = "3";
one("select[name=layer]").dispatchEvent(new Event("change"));
facts.push(one("#attention-kept .note").textContent);
press(one("#attention-kept svg.plot"), "ArrowRight");
facts.push(one("#tip p").textContent, count("#tip tr"));
const map = one("#head-budgets svg.plot");
press(map, "ArrowRight");
press(map, "ArrowDown");
press(map, "Enter");
facts.push(one("select[name=layer]").value, one("select[name=head]").value, one("#attention-kept .note").textContent);
document.body.dataset.facts = facts.join("|");
}
</script></body></html>
END
} >"$folder/read.html"
browse read read.html --dump-dom
is "what the page answers" "$(sed -n 's/.*data-facts="\([^"]*\)".*/\1/p' "$folder/read.dom")" \
    '14|false|layer 3, mean over 4 heads|budget 0.5%|7|1|0|layer 1, head 0'

[ "${LONGHAUL_SCREENSHOTS:-}" = 1 ] || exit 0
mkdir -p "$shots"
browse desktop sample.html --screenshot="$shots/desktop.png" --window-size=1280,3200
browse phone sample.html --screenshot="$shots/phone.png" --window-size=390,3200
browse dark sample.html --screenshot="$shots/dark.png" --window-size=1280,3200 --blink-settings=preferredColorScheme=0
browse print sample.html --print-to-pdf="$shots/print.pdf"
for shot in desktop.png phone.png dark.png print.pdf; do
    [ "$(wc -c <"$shots/$shot")" -gt 20000 ] || fail "$shot is empty"
done
