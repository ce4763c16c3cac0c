#!/usr/bin/env python3
"""Draw the entries that policies keep: heads (rows, layer by layer) x positions (columns), from keep sets that 'longhaul generate
--keep-sets' wrote. Needs h5py and numpy. Colours are in the middle: legible on white and on black.

  tools/draw_keep_sets.py keep.h5 -o keep.svg                        one picture
  tools/draw_keep_sets.py snapkv=a.h5 tova=b.h5 -o all.svg           several small ones
  tools/draw_keep_sets.py keep.h5 -o keep.svg --model smollm2.h5     the ends of sentences, too: the model names the tokens
"""
import argparse
import base64
import json
import os
import struct
import zlib
from html import escape

import h5py
import numpy as np

BLUE = (47, 129, 247)  # of the entries: strong on white and on black
STYLE = """<style>
text { font: 11px sans-serif; fill: #747c86 } .name { font-size: 13px; font-weight: bold }
.line { fill: none; stroke: #8c959f } .bars { fill: #8c959f } image { image-rendering: pixelated }
</style>"""


class Kept:
    """keep[layer, head, position] of one run."""

    def __init__(self, path, name, group):
        with h5py.File(path) as f:
            self.tokens = f["tokens"][:]
            options = json.loads(f.attrs.get("run", "{}")).get("options", {})
            layers = f["layers"]
            sets = [layers[l][group if group in layers[l] else "kept"] for l in sorted(layers)]
            heads = [len(s["offsets"]) - 1 for s in sets]
            lists = [(s["offsets"][:], s["positions"][:]) for s in sets]
        length = len(self.tokens) if group == "final" else 1 + max(int(p.max()) for _, p in lists)
        self.model = os.path.splitext(os.path.basename(options.get("model") or ""))[0]
        self.budget = options.get("budget")
        self.name = name or os.path.splitext(os.path.basename(path))[0]
        self.keep = np.zeros((len(sets), max(heads), length), bool)
        for l, (at, positions) in enumerate(lists):
            for h in range(len(at) - 1):
                self.keep[l, h, positions[at[h]:at[h + 1]]] = True
        self.layers, self.heads, self.length = self.keep.shape

    def run(self):
        """Model and budget, as far as the file has them."""
        return "".join(f"{p}; " for p in (self.model, self.budget and f"budget {self.budget} entries per head") if p)

    def entries(self):
        return self.keep.sum(axis=2)

    def summary(self):
        n = self.entries()
        least, most = int(n.min()), int(n.max())
        spread = f"{n.mean():.0f} of {self.length:,} tokens a head"
        return spread if least == most else f"{spread} on average, {least} to {most}"


def png(levels, most, alphas):
    """levels [rows, columns] of 0 .. most as a PNG of one colour, whose opacity grows with the level."""
    bits = 1 if most < 2 else 2 if most < 4 else 4
    rows, cols = levels.shape
    per = 8 // bits
    padded = np.zeros((rows, -(-cols // per) * per), np.uint8)
    padded[:, :cols] = levels
    packed = np.zeros((rows, padded.shape[1] // per), np.uint8)
    for i in range(per):
        packed |= padded[:, i::per] << (8 - bits * (i + 1))
    raw = b"".join(b"\0" + packed[r].tobytes() for r in range(rows))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", cols, rows, bits, 3, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"PLTE", bytes(BLUE) * (most + 1)) +
            chunk(b"tRNS", bytes(alphas)) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def image(kept, bin_tokens, most, box):
    """An SVG image of the keep sets; columns are bins of tokens, `most` shades for the share that is kept of a bin."""
    flat = kept.keep.reshape(-1, kept.length)
    cols = -(-kept.length // bin_tokens)
    padded = np.zeros((len(flat), cols * bin_tokens))
    padded[:, :kept.length] = flat
    share = padded.reshape(len(flat), cols, bin_tokens).mean(axis=2)
    levels = np.ceil(share * most - 1e-9).astype(np.uint8)
    alphas = [0] + [255 - 90 * (most - i) // max(1, most - 1) for i in range(1, most + 1)]
    data = base64.b64encode(png(levels, most, alphas)).decode()
    x, y, width, height = box
    return (f'<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{data}"/>')


def sentence_ends(model, tokens, length):
    """Positions of tokens that end a sentence, using the model's tokenizer."""
    with h5py.File(model) as f:
        text = f["tokenizer/json"][()]
    spec = json.loads(text.decode() if isinstance(text, bytes) else bytes(text).decode())
    vocabulary = spec["model"]["vocab"]
    pieces = {i: p for p, i in vocabulary.items()} if isinstance(vocabulary, dict) else {i: p for i, (p, _) in enumerate(vocabulary)}
    return [i for i, t in enumerate(tokens[:length]) if pieces.get(int(t), "").rstrip("Ċ▁ĠâĢĿ\"'").endswith((".", "!", "?"))]


def ticks(last, about):
    """About `about` round numbers up to `last`, and `last` itself."""
    step = max(1, last // about)
    nice = min((m * 10**e for e in range(7) for m in (1, 2, 2.5, 5) if m * 10**e == int(m * 10**e)), key=lambda s: abs(s - step))
    at = list(range(0, last - int(nice) // 2 + 1, int(nice)))
    return at + [last]


def bars(entries, x, top, row):
    """Bars with the number of entries that each head keeps, next to its row."""
    most, width, below = int(entries.max()), 60, top + entries.size * row
    path = "".join(f"M{x:g} {top + i * row}h{e * width / most:.1f}v{row}H{x:g}z" for i, e in enumerate(entries.reshape(-1)))
    return [f'<path class="bars" d="{path}"/>',
            f'<path class="line" d="M{x + .5:g} {top}V{below + 4}M{x + width - .5:g} {below}v4"/>',
            f'<text x="{x + width:g}" y="{below + 16}" text-anchor="middle">{most:,}</text>',
            f'<text x="{x:g}" y="{below + 31}">entries</text>']


def one(kept, ends):
    left, top, right = 62, 30, 104
    width, row = kept.length / 2 if kept.length <= 2048 else 1024, 3
    height = kept.layers * kept.heads * row
    scale = width / kept.length
    below = top + height
    out = [f'<text x="{left}" y="18"><tspan class="name">{escape(kept.name)}</tspan><tspan dx="8">{escape(kept.run())}{kept.summary()}; blue: kept</tspan></text>',
           image(kept, max(1, round(1 / scale)), 2 if scale < 1 else 1, (left, top, f"{width:g}", height)),
           f'<path class="line" d="M{left - 1} {top}V{below + .5}H{left + width:g}"/>']
    for l in ticks(kept.layers - 1, 6):
        y = top + (l + .5) * kept.heads * row
        out.append(f'<path class="line" d="M{left - 5} {y:g}h4"/><text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{l}</text>')
    out.append(f'<text transform="translate(16 {top + height / 2:g}) rotate(-90)" text-anchor="middle">layer, {kept.heads} heads each</text>')
    for t in ticks(kept.length - 1, 6):
        x = left + (t + .5) * scale
        out.append(f'<path class="line" d="M{x:g} {below + 1}v4"/><text x="{x:g}" y="{below + 16}" text-anchor="middle">{t}</text>')
    out.append(f'<text x="{left + width / 2:g}" y="{below + 31}" text-anchor="middle">token'
               f'{"; strokes: ends of sentences" if ends else ""}</text>')
    if ends:
        out.append(f'<path class="line" d="{"".join(f"M{left + (e + 1) * scale:g} {top - 6}v5" for e in ends)}"/>')
    n = kept.entries()
    if n.min() < n.max():
        out += bars(n, left + width + 22, top, row)
    return int(left + width + right), below + 40, out


def many(all_kept, columns):
    gap, top, left, under = 18, 24, 8, 10
    width, height = 200, 90
    out = []
    for i, kept in enumerate(all_kept):
        x = left + i % columns * (width + gap)
        y = top + i // columns * (height + top + under)
        out += [f'<text class="name" x="{x}" y="{y - 6}">{escape(kept.name)}</text>',
                image(kept, max(1, kept.length // (width - 10)), 3, (x, y, width, height)),
                f'<path class="line" d="M{x - .5} {y}v{height + .5}h{width}"/>']
    rows = -(-len(all_kept) // columns)
    first, bottom = all_kept[0], rows * (height + top + under)
    out.append(f'<text x="{left}" y="{bottom + 12}">{escape(first.run())}blue: kept</text>')
    bottom += 16
    out.append(f'<text x="{left}" y="{bottom + 12}">rows: layer 0 (top) to {first.layers - 1}, {first.heads} heads each; columns: token 0 to '
               f'{first.length - 1:,}; the stronger, the more of the tokens under a dot are kept</text>')
    return left * 2 + columns * (width + gap) - gap, bottom + 22, out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="+", metavar="[NAME=]FILE", help="keep sets, and their names in the picture")
    p.add_argument("-o", "--output", required=True, metavar="FILE", help="the SVG")
    p.add_argument("--final", action="store_true", help="entries at the end of the run instead of the prompt")
    p.add_argument("--model", metavar="FILE", help="the checkpoint: marks the ends of sentences (one picture)")
    p.add_argument("--columns", type=int, default=4, help="small pictures in a row (default: 4)")
    a = p.parse_args()
    named = [f.rsplit("=", 1) if "=" in f else (None, f) for f in a.files]
    kept = [Kept(path, name, "final" if a.final else "kept") for name, path in named]
    if len(kept) == 1:
        width, height, body = one(kept[0], sentence_ends(a.model, kept[0].tokens, kept[0].length) if a.model else [])
        title = f"What {kept[0].name} keeps: heads by positions"
    else:
        width, height, body = many(kept, a.columns)
        title = "What each policy keeps: heads by positions"
    with open(a.output, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
                f"<title>{escape(title)}</title>\n{STYLE}\n" + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
