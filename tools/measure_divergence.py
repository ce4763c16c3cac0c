#!/usr/bin/env python3
"""Kullback-Leibler divergence, in nats, of the next token to that of the full cache, over the true tokens of a text after a context that was
evicted: the context is the prompt, what follows it in the text is fed back ('generate --force-tokens'), and the logits are compared. 'eval
fidelity' measures it where the model goes on by itself.

  tools/measure_divergence.py -m smollm2.h5 --text essays/ --length 1537 --first 9,10,11 --policy ask-later --policy snapkv --budget 20%,10%

Windows begin with the first token of texts --first of the folder, in the order of their names, and go on in the next ones. Needs h5py and numpy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np


def run(a, *args):
    done = subprocess.run([a.longhaul, *args, "-m", a.model, "-q"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout


def window(a, files, first, work):
    """Token ids from the beginning of a text on."""
    path, ids = os.path.join(work, "text.txt"), []
    text = ""
    for f in files[first:] + files[:first]:
        with open(os.path.join(a.text, f), encoding="utf-8") as source:
            text += source.read() + "\n\n"
        if len(text) > 3 * (a.length + a.tokens):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            ids = run(a, "tokenize", "--prompt-file", path).replace(",", " ").strip("[] \n").split()
        if len(ids) >= a.length + a.tokens:
            return ids
    sys.exit(f"'{a.text}' has no {a.length + a.tokens} tokens")


def log_probabilities(a, ids, policy, work):
    paths = [os.path.join(work, f) for f in ("context.ids", "next.ids", "logits.h5")]
    for path, part in zip(paths, (ids[:a.length], ids[a.length:a.length + a.tokens])):
        with open(path, "w", encoding="utf-8") as f:
            f.write(" ".join(part))
    run(a, "generate", "--prompt-tokens", paths[0], "--force-tokens", paths[1], "--max-new", str(a.tokens), "--ignore-eos", "--logits", paths[2],
        *policy)
    with h5py.File(paths[2]) as f:
        x = f["logits"][:].astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--text", required=True, help="a folder of *.txt")
    p.add_argument("--length", type=int, default=1537, help="tokens of the context")
    p.add_argument("--tokens", type=int, default=160, help="tokens after it")
    p.add_argument("--first", default="0", help="numbers of texts, from 0 on, with a window each")
    p.add_argument("--policy", action="append", required=True, help="a preset, with parts of its own; may be repeated")
    p.add_argument("--budget", default="20%,10%")
    p.add_argument("--longhaul", default="build/longhaul")
    a = p.parse_args()
    files = sorted(f for f in os.listdir(a.text) if f.endswith(".txt"))
    budgets = a.budget.split(",")
    with tempfile.TemporaryDirectory() as work:
        windows = [window(a, files, int(i), work) for i in a.first.split(",")]
        full = [log_probabilities(a, ids, [], work) for ids in windows]
        print("| policy | " + " | ".join(budgets) + " |\n|---|" + "---:|" * len(budgets))
        for policy in a.policy:
            cells = []
            for budget in budgets:
                kept = [log_probabilities(a, ids, ["--policy", *policy.split(), "--budget", budget], work) for ids in windows]
                each = [float((np.exp(f) * (f - k)).sum(axis=1).mean()) for f, k in zip(full, kept)]
                cells.append(f"{np.mean(each):.3f} ({', '.join(f'{x:.3f}' for x in each)})")
            print(f"| `{policy}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
