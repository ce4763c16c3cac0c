#!/usr/bin/env python3
"""A policy without C: choose with numpy what every head keeps, and let longhaul keep exactly that.

Takes keep sets that 'longhaul … --keep-sets' wrote, for the tokens, layers and heads, and writes its own for the same prompts.
This one keeps the first 4 positions, the last 32, and between them every n-th so that the budget is met; replace
choose(). Needs h5py and numpy.

  longhaul generate -m m.h5 -f book.txt --policy streaming --budget 256 --keep-sets some.h5 -n 1
  examples/keep_sets.py some.h5 mine.h5 --budget 256
  longhaul generate -m m.h5 -f book.txt --keep-sets-from mine.h5

  longhaul eval needle -m m.h5 --haystack essays/ --policy streaming --budget 256 --keep-sets some/
  examples/keep_sets.py some/ mine/ --budget 256
  longhaul eval needle -m m.h5 --haystack essays/ --policy snapkv --budget 256 --keep-sets-from mine/
"""
import argparse
import glob
import os

import h5py
import numpy as np


def choose(tokens, layers, heads, budget):
    """keep[layers, heads, positions], boolean: at least one position of every head."""
    n = len(tokens)
    keep = np.zeros((layers, heads, n), bool)
    keep[:, :, :4] = keep[:, :, -32:] = True
    between = np.linspace(4, max(n - 33, 4), max(budget - 36, 1)).astype(int)
    keep[:, :, between[between < n]] = True
    return keep


def read(path):
    """The ids of the prompt, and how many layers and KV heads the model has."""
    with h5py.File(path) as f:
        layers = f["layers"]
        sets = [layers[l]["kept"] for l in sorted(layers)]
        length = 1 + max(int(s["positions"][:].max()) for s in sets)  # of the prompt: its last position is always kept here
        return f["tokens"][:length], len(sets), len(sets[0]["offsets"]) - 1


def write(path, tokens, keep):
    with h5py.File(path, "w") as f:
        f.attrs["longhaul"] = np.bytes_("keep-sets")
        f.attrs["schema"] = np.int64(1)
        f["tokens"] = tokens.astype(np.int32)
        for l, heads in enumerate(keep):
            positions = [np.flatnonzero(head) for head in heads]  # ascending
            group = f.create_group(f"layers/{l:03d}/kept")
            group["offsets"] = np.cumsum([0] + [len(p) for p in positions], dtype=np.int64)
            group["positions"] = np.concatenate(positions).astype(np.int32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="keep sets of --keep-sets: a file of 'generate', a folder of 'eval'")
    parser.add_argument("target", help="the file or folder to write")
    parser.add_argument("--budget", type=int, default=256, help="positions that a head keeps")
    args = parser.parse_args()
    jobs = {args.target: args.source}
    if os.path.isdir(args.source):
        os.makedirs(args.target, exist_ok=True)
        # PROMPT.01-POLICY-BUDGET.h5 -> PROMPT.h5
        jobs = {
            os.path.join(args.target, os.path.basename(p).split(".")[0] + ".h5"): p
            for p in sorted(glob.glob(os.path.join(args.source, "*.01-*.h5")))
        }
    for target, source in jobs.items():
        tokens, layers, heads = read(source)
        write(target, tokens, choose(tokens, layers, heads, args.budget))
    print(f"{len(jobs)} keep sets")


if __name__ == "__main__":
    main()
