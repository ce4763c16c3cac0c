#!/usr/bin/env python3
"""The cost of eviction while decoding, in two tables.

  tools/measure_decode.py MODEL.h5 PROMPT.ids [--longhaul build/longhaul] [--ranks 1] [--threads 2] [--budget 512]
                          [--policies h2o,tova] [--new 256] [--repeat 3]

PROMPT.ids holds token ids, separated by white space: a long prompt. First table: policies that evict at every step, after
the prompt's first tokens (a tenth more than the budget): time of a step, and the share of evictions in it. Second table: decoding
with --budget entries kept of the whole prompt, beside the same number of tokens as the prompt of a full cache. Medians of
--repeat runs, which take turns.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

EVERY_STEP = "h2o,scissorhands,tova,mas,roco,ahakv,streaming,recency,random,knorm,keydiff"


def timing(options, ids, new, arguments):
    """The times of one run, in seconds. A run of n tokens takes n - 1 steps."""
    command = ["mpirun", "--bind-to", "none", "-n", str(options.ranks)] if options.ranks > 1 else []
    command += [options.longhaul, "generate", "-m", options.model, "--prompt-tokens", ids, "-n", str(new), "--ignore-eos",
                "--threads", str(options.threads), "--json"] + arguments
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)["timing"]


def cut(ids, count, folder):
    path = os.path.join(folder, f"{count}.ids")
    with open(path, "w") as f:
        f.write(" ".join(ids[:count]))
    return path


def evictions(options, ids):
    """Eviction time of prefill, from a run without steps."""
    for policy in options.policies.split(","):
        arguments = ["--policy", policy, "--budget", str(options.budget), "--evict", "every:1"]
        steps, shares = [], []
        for _ in range(options.repeat):
            before = timing(options, ids, 1, arguments)
            run = timing(options, ids, options.new + 1, arguments)
            steps.append(run["decode_s"] / options.new)
            shares.append((run["evict_s"] - before["evict_s"]) / run["decode_s"])
        yield policy, statistics.median(steps), statistics.median(shares)


def kept_or_short(options, whole, short):
    runs = [("kept of the whole prompt", whole, ["--policy", "snapkv", "--budget", str(options.budget)]),
            ("a short prompt", short, [])]
    speeds = {name: [] for name, _, _ in runs}
    for _ in range(options.repeat):
        for name, ids, arguments in runs:
            speeds[name].append(options.new / timing(options, ids, options.new + 1, arguments)["decode_s"])
    return [(name, statistics.median(all)) for name, all in speeds.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("prompt")
    parser.add_argument("--longhaul", default="build/longhaul")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--policies", default=EVERY_STEP)
    parser.add_argument("--new", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with open(options.prompt) as f:
        ids = f.read().split()
    with tempfile.TemporaryDirectory() as folder:
        start = cut(ids, options.budget * 11 // 10, folder)
        print("| policy | a step, ms | evictions, of it |\n|---|---|---|")
        for policy, step, share in evictions(options, start):
            print(f"| `{policy}` | {1e3 * step:.2f} | {100 * share:.1f}% |", flush=True)
        print(f"\n| {options.budget} entries | tokens/s |\n|---|---|")
        for name, speed in kept_or_short(options, options.prompt, cut(ids, options.budget, folder)):
            print(f"| {name} | {speed:.1f} |")


if __name__ == "__main__":
    main()
