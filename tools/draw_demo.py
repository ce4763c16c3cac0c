#!/usr/bin/env python3
"""Draw the table of jobs/demo.sh: the cache that each policy keeps, and its answer, from the JSON files that the demo leaves in
build/demo. Colours follow the reader's light or dark mode, and a tick or a cross says what they say.

  jobs/demo.sh && tools/draw_demo.py build/demo -o docs/demo.svg
"""
import argparse
import json
import os
from html import escape

SECRET = "amber giraffe 4172"  # of jobs/demo.sh
RUNS = ("full", "longhaul", "streaming", "later", "snapkv-later")
STYLE = """<style>
text { fill: #1f2328 } .muted { fill: #656d76 } .small { font-size: 12px } .title { font-size: 16px; font-weight: bold }
.paper { fill: #ffffff } .full { fill: #9aa5b1 } .right { fill: #1a7f37 } .wrong { fill: #b4532a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .muted { fill: #9198a1 } .paper { fill: #0d1117 } .right { fill: #3fb950 } .wrong { fill: #f0883e }
}
</style>"""
WIDTH, LEFT, BARS, ANSWERS, TOP, ROW, BAR = 920, 20, 190, 440, 78, 50, 160
LETTERS = 62  # of an answer that fit


def size(number):
    mib = number / 2**20
    return f"{mib:.0f} MiB" if mib >= 10 else f"{mib:.1f} MiB"


def cut(text):
    text = " ".join(text.split())
    return text if len(text) <= LETTERS else text[:LETTERS].rsplit(" ", 1)[0] + " …"


def row(y, run, most):
    kept = sum(run["kv"]["bytes_kept"])
    right = SECRET in run["text"]
    look = "right" if right else "wrong"
    bar = max(3, BAR * kept / most)
    evicts = run["kv"]["budget"] is not None
    out = [f'<text x="{LEFT}" y="{y + 15}">{escape(run["policy"]["name"])}</text>',
           f'<rect class="{look if evicts else "full"}" x="{BARS}" y="{y}" width="{bar:.0f}" height="20"/>',
           f'<text x="{BARS + bar + 8:.0f}" y="{y + 15}">{size(kept)}</text>',
           f'<text class="{look}" x="{ANSWERS}" y="{y + 15}">{"✓" if right else "✗"} {escape(cut(run["text"]), quote=False)}</text>']
    if evicts:
        budget = str(run["policy"]["budget"])
        when = ", question asked later" if run.get("question") else " entries per head"
        out.append(f'<text class="muted small" x="{LEFT}" y="{y + 32}">{budget}{when}</text>')
    return out


def draw(runs):
    first = runs[0]
    most = max(sum(run["kv"]["bytes_kept"]) for run in runs)
    height = TOP + ROW * len(runs) + 22
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="14">',
           "<title>Result of jobs/demo.sh: cache kept and answer, by policy and by when the question came</title>", STYLE,
           f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
           f'<text class="title" x="{LEFT}" y="28">One sentence hidden in {first["prompt_tokens"]:,} tokens, asked for at the end, or later '
           f'(SmolLM2-135M, {first["ranks"]} ranks)</text>',
           f'<text class="muted" x="{LEFT}" y="58">policy</text>',
           f'<text class="muted" x="{BARS}" y="58">key-value cache kept</text>',
           f'<text class="muted" x="{ANSWERS}" y="58">answer</text>']
    for i, run in enumerate(runs):
        out += row(TOP + i * ROW, run, most)
    out.append(f'<text class="muted small" x="{LEFT}" y="{height - 14}">jobs/demo.sh, {first["ranks"]} ranks with {first["threads"]} '
               f'{"thread" if first["threads"] == 1 else "threads"} each</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", help="where the demo left full.json, longhaul.json, ...")
    p.add_argument("-o", "--output", required=True, metavar="FILE", help="the SVG")
    a = p.parse_args()
    runs = []
    for name in RUNS:
        with open(os.path.join(a.folder, name + ".json"), encoding="utf-8") as f:
            runs.append(json.load(f))
    with open(a.output, "w", encoding="utf-8") as f:
        f.write(draw(runs))


if __name__ == "__main__":
    main()
