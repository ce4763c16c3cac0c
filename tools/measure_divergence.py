#!/usr/bin/env python3
"""Kullback-Leibler divergence, in nats, of the next token to that of the full cache, over the true tokens of a text after a context that was
evicted: the context is the prompt, what follows it in the text is fed back ('generate --force-tokens'), and the logits are compared. 'eval
fidelity' measures it where the model goes on by itself.

  tools/measure_divergence.py -m smollm2.h5 --text essays/ --length 1537 --first 9,10,11 --policy ask-later --policy snapkv --budget 20%,10%
  tools/measure_divergence.py -m bf16.h5 --text essays/ --length 257 --tokens 400 --first 9,10 --other q8_0.h5 --other q4_K_M.h5

--other: in place of policies, the same weights in other formats, with the full cache, and the share of tokens with the same best one.

Windows begin with the first token of texts --first of the folder, in the order of their names, and go on in the next ones. Needs h5py and numpy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np


def run(a, *args, model=None):
    done = subprocess.run([a.longhaul, *args, "-m", model or a.model, "-q"], capture_output=True, text=True)
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
            return a.before.split(",") * bool(a.before) + ids
    sys.exit(f"'{a.text}' has no {a.length + a.tokens} tokens")


def log_probabilities(a, ids, policy, work, model=None):
    paths = [os.path.join(work, f) for f in ("context.ids", "next.ids", "logits.h5")]
    for path, part in zip(paths, (ids[:a.length], ids[a.length:a.length + a.tokens])):
        with open(path, "w", encoding="utf-8") as f:
            f.write(" ".join(part))
    run(a, "generate", "--prompt-tokens", paths[0], "--force-tokens", paths[1], "--max-new", str(a.tokens), "--ignore-eos", "--logits", paths[2],
        *policy, model=model)
    with h5py.File(paths[2]) as f:
        x = f["logits"][:].astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def divergence(full, kept):
    return float((np.exp(full) * (full - kept)).sum(axis=1).mean())


def compare_policies(a, windows, full, work):
    budgets = a.budget.split(",")
    print("| policy | " + " | ".join(budgets) + " |\n|---|" + "---:|" * len(budgets))
    for policy in a.policy:
        cells = []
        for budget in budgets:
            kept = [log_probabilities(a, ids, ["--policy", *policy.split(), "--budget", budget], work) for ids in windows]
            each = [divergence(f, k) for f, k in zip(full, kept)]
            cells.append(f"{np.mean(each):.3f} ({', '.join(f'{x:.3f}' for x in each)})")
        print(f"| `{policy}` | " + " | ".join(cells) + " |", flush=True)


def compare_formats(a, windows, full, work):
    print("| checkpoint | MiB | KL | same best |\n|---|---:|---:|---:|")
    for model in a.other:
        rows = [log_probabilities(a, ids, [], work, model) for ids in windows]
        same = np.mean([(f.argmax(axis=1) == r.argmax(axis=1)).mean() for f, r in zip(full, rows)])
        each = [divergence(f, r) for f, r in zip(full, rows)]
        print(f"| {os.path.basename(model)} | {os.path.getsize(model) / 2**20:.1f} | {np.mean(each):.5f} ({', '.join(f'{x:.5f}' for x in each)}) "
              f"| {same:.3f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--text", required=True, help="a folder of *.txt")
    p.add_argument("--length", type=int, default=1537, help="tokens of the context")
    p.add_argument("--tokens", type=int, default=160, help="tokens after it")
    p.add_argument("--before", default="", help="ids of tokens before each text, such as 1 for MiniMind2")
    p.add_argument("--first", default="0", help="numbers of texts, from 0 on, with a window each")
    of = p.add_mutually_exclusive_group(required=True)
    of.add_argument("--policy", action="append", help="a preset, with parts of its own; may be repeated")
    of.add_argument("--other", action="append", help="a checkpoint of the same weights; may be repeated")
    p.add_argument("--budget", default="20%,10%")
    p.add_argument("--longhaul", default="build/longhaul")
    a = p.parse_args()
    files = sorted(f for f in os.listdir(a.text) if f.endswith(".txt"))
    with tempfile.TemporaryDirectory() as work:
        windows = [window(a, files, int(i), work) for i in a.first.split(",")]
        full = [log_probabilities(a, ids, [], work) for ids in windows]
        (compare_policies if a.policy else compare_formats)(a, windows, full, work)


if __name__ == "__main__":
    main()
