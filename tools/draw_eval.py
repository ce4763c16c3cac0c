#!/usr/bin/env python3
"""Draw the means that 'longhaul eval … --csv' wrote: a measure over what is kept, one line per policy, with the 95% confidence
interval where the file has it for that measure, and the full cache as a dashed line. One panel for every model, task, length
and scenario. Needs only Python's standard library. Colours are in the middle: legible on white and on black.

  tools/draw_eval.py needle.csv -o needle.svg                         exact answers over the budget
  tools/draw_eval.py small.csv large.csv -o all.svg --x kv_bytes      two models, over the bytes of the cache
  tools/draw_eval.py fidelity.csv -o kl.svg --measure kl              another measure
"""
import argparse
import csv
import math
import sys
from html import escape

# The measure that is drawn unless another is named, and the one that ci_low and ci_high belong to, by task.
MEASURES = ("score", "exact", "f1", "agreement", "ppl", "acc")
COLOURS = ("#2f81f7", "#d29922", "#3fb950", "#db61a2", "#a371f7", "#f0883e", "#39a9b0", "#e5534b", "#8c959f", "#6e8b3d")
MARKS = ("circle", "square", "diamond", "triangle")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 420, 260, 56, 34, 16, 44
STYLE = """<style>
text { font: 11px sans-serif; fill: #747c86 } .name { font-size: 13px; font-weight: bold }
.axis { stroke: #8c959f } .grid { stroke: #8c959f; stroke-opacity: .25 } .full { stroke: #747c86; stroke-dasharray: 5 4; fill: none }
</style>"""


def read(paths):
    rows = []
    for path in paths:
        with open(path, newline="") as f:
            rows += [dict(row, file=path) for row in csv.DictReader(f)]
    if not rows or "policy" not in rows[0]:
        sys.exit(f"{paths[0]}: no means of 'longhaul eval --csv'")
    return rows


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def panels(rows):
    """Rows by model, task, length and scenario, in their order."""
    found = {}
    for row in rows:
        length = row.get("length") or row.get("context")
        title = ", ".join(t for t in (row.get("model"), row.get("task"), length and f"{length} tokens", row.get("scenario")) if t)
        found.setdefault(title, []).append(row)
    return found


class Axis:
    """Values or names to pixels; names are evenly spaced."""

    def __init__(self, low, high, start, end, log=False):
        self.low, self.high, self.start, self.end, self.log = low, high, start, end, log

    def at(self, value):
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def mark(kind, x, y, colour, title):
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"',
        "square": f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4"',
        "diamond": f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5-4.5z"',
        "triangle": f'<path d="M{x:.1f} {y - 4:.1f}l4.2 7.4h-8.4z"',
    }
    return f'{shapes[kind]} fill="{colour}"><title>{escape(title)}</title></{shapes[kind].split()[0][1:]}>'


def ticks(low, high):
    step = 10 ** math.floor(math.log10((high - low) or 1))
    for factor in (1, 0.5, 0.2):
        if (high - low) / (step * factor) >= 4:
            step *= factor
            break
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def short(value):
    for size, letter in ((2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g} B"


def draw_panel(title, rows, policies, args, left, top):
    measure = args.measure
    points = {}
    full = [r for r in rows if r["policy"] == "full"]
    for row in rows:
        if row["policy"] != "full" and not math.isnan(number(row[measure])):
            points.setdefault(row["policy"], []).append(row)
    kept = sorted(
        {r["budget"]: number(r.get("entries_kept")) for p in points.values() for r in p}.items(),
        key=lambda item: (item[1], number(item[0].rstrip("%"))),
    )
    budgets = [name for name, _ in kept]
    values = [number(r[c]) for r in rows for c in {measure, *(("ci_low", "ci_high") if args.interval else ())} if c in r]
    values = [v for v in values if not math.isnan(v)]
    low, high = (0, 1) if values and min(values) >= 0 and max(values) <= 1 else (min(values + [0]), max(values + [1e-9]))
    y = Axis(low, high, top + HEIGHT - BOTTOM, top + TOP)
    if args.x == "budget":
        x = Axis(-0.3, max(len(budgets), 1) - 0.7, left + LEFT, left + WIDTH - RIGHT)
        place = lambda row: x.at(budgets.index(row["budget"]))
        labels = [(x.at(i), name) for i, name in enumerate(budgets)]
        label = "budget: entries per KV head, or share of the prompt"
    else:
        sizes = [number(r["kv_bytes"]) for p in points.values() for r in p] or [1]
        x = Axis(min(sizes) * 0.9, max(sizes) * 1.1, left + LEFT, left + WIDTH - RIGHT, log=True)
        place = lambda row: x.at(number(row["kv_bytes"]))
        labels = [(x.at(s), short(s)) for s in {min(sizes), math.sqrt(min(sizes) * max(sizes)), max(sizes)}]
        label = "bytes of keys and values"
    out = [f'<text class="name" x="{left + LEFT}" y="{top + 18}">{escape(title)}</text>']
    for value in ticks(low, high):
        at = y.at(value)
        out.append(f'<path class="grid" d="M{left + LEFT} {at:.1f}H{left + WIDTH - RIGHT}"/>')
        out.append(f'<text x="{left + LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    out.append(f'<path class="axis" fill="none" d="M{left + LEFT} {top + TOP}V{y.start}H{left + WIDTH - RIGHT}"/>')
    for at, name in labels:
        out.append(f'<text x="{at:.1f}" y="{y.start + 15:.1f}" text-anchor="middle">{escape(name)}</text>')
    out.append(f'<text x="{left + (LEFT + WIDTH - RIGHT) / 2:.0f}" y="{y.start + 32:.1f}" text-anchor="middle">{label}</text>')
    for row in full:
        if not math.isnan(number(row[measure])):
            at = y.at(number(row[measure]))
            out.append(f'<path class="full" d="M{left + LEFT} {at:.1f}H{left + WIDTH - RIGHT}"><title>full</title></path>')
    for policy, line in points.items():
        i = policies.index(policy)
        colour, kind = COLOURS[i % len(COLOURS)], MARKS[i // len(COLOURS) % len(MARKS)]
        line.sort(key=place)
        shift = (i - (len(policies) - 1) / 2) * 2 if args.interval else 0  # intervals beside each other
        xy = [(place(r) + shift, y.at(number(r[measure]))) for r in line]
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in xy)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        for row, (px, py) in zip(line, xy):
            ends = number(row.get("ci_low")), number(row.get("ci_high"))
            if args.interval and not math.isnan(ends[0]):
                out.append(f'<path d="M{px:.1f} {y.at(ends[0]):.1f}V{y.at(ends[1]):.1f}" stroke="{colour}" stroke-opacity=".6"/>')
            out.append(mark(kind, px, py, colour, f'{policy} {row["budget"]}: {number(row[measure]):.3g}'))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", help="means: files of 'longhaul eval … --csv'")
    parser.add_argument("-o", "--output", required=True, help="the picture, SVG")
    parser.add_argument("--measure", help="column to draw; by default the task's main one")
    parser.add_argument("--x", choices=("budget", "kv_bytes"), default="budget", help="what the horizontal axis shows")
    args = parser.parse_args()
    rows = read(args.csv)
    main_measure = next((m for m in MEASURES if m in rows[0]), None)
    args.measure = args.measure or main_measure
    if args.measure not in rows[0]:
        sys.exit(f"no column '{args.measure}', there are: {', '.join(rows[0])}")
    args.interval = args.measure == main_measure and "ci_low" in rows[0]
    policies = list(dict.fromkeys(r["policy"] for r in rows if r["policy"] != "full"))
    found = panels(rows)
    across = min(len(found), 2)
    down = -(-len(found) // across)
    legend = TOP + 18 * (len(policies) + 1)
    width, height = across * WIDTH, down * HEIGHT + legend
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">', STYLE]
    out.append(f"<title>{escape(args.measure)} by policy</title>")
    for i, (title, some) in enumerate(found.items()):
        out += draw_panel(title, some, policies, args, i % across * WIDTH, i // across * HEIGHT)
    top = down * HEIGHT + 8
    out.append(f'<text class="name" x="{LEFT}" y="{top + 6}">{escape(args.measure)}</text>')
    for i, policy in enumerate(policies + ["full"]):
        at = top + 24 + 18 * i
        if policy == "full":
            out.append(f'<path class="full" d="M{LEFT} {at - 4}h24"/><text x="{LEFT + 32}" y="{at}">full cache</text>')
            continue
        out.append(mark(MARKS[i // len(COLOURS) % len(MARKS)], LEFT + 12, at - 4, COLOURS[i % len(COLOURS)], policy))
        out.append(f'<text x="{LEFT + 32}" y="{at}">{escape(policy)}</text>')
    with open(args.output, "w") as f:
        f.write("\n".join(out + ["</svg>\n"]))


if __name__ == "__main__":
    main()
