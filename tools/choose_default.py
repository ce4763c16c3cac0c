#!/usr/bin/env python3
"""Search the combination of a policy's parts that measures best on a model: the candidate for the default policy of '--budget'.

Coordinate search: from a first policy on, every round measures all policies that differ from the best one so far in one
part, takes the best, and ends when none is better. A value that made its round's first policy worse by more than --drop
is not tried again. A policy is measured by

  aware-1, aware-4  needles, question-aware: one, and one of four: the share of the secret's words, of the prompts that
                    the full cache answers exactly
  only-1            the same of one needle, context-only, at larger budgets
  fidelity          best-token agreement under the full cache's tokens, on real texts

Its score is the mean of these four, each a mean over its budgets. The search uses two thirds of the prompts and
windows; the report also shows the last third. All measurements are kept in the folder -o, so that an interrupted search
can be continued. Needs only Python's standard library.

  tools/choose_default.py -m smollm2.h5 --haystack essays/ --text books/ -o choice/
"""
import argparse
import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Values that a round tries for each part; a value may be several options that belong together.
PARTS = {
    "rows": ["--window 8", "--window 16", "--window 32", "--window 64"],
    "group": ["--group mean", "--group max"],
    "pool": ["--pool max", "--pool avg"],
    "pool-size": [f"--pool-size {k}" for k in (7, 15, 21, 31, 45, 63)],
    "sinks": ["--sinks 0", "--sinks 4", "--sinks 16"],
    "heads": ["--head-budget uniform"]
    + [f"--head-budget adaptive --safeguard {s} --alpha {a}" for s in ("interp", "floor") for a in ("0.2", "0.5", "0.8")],
    "layers": ["--layer-budget uniform", "--layer-budget pyramid", "--layer-budget adaptive"],
    "select": ["--select topk", "--select two-stage"],
}
START = {
    "rows": "--window 32",
    "group": "--group mean",
    "pool": "--pool max",
    "pool-size": "--pool-size 31",
    "sinks": "--sinks 0",
    "heads": "--head-budget adaptive --safeguard interp --alpha 0.5",
    "layers": "--layer-budget uniform",
    "select": "--select topk",
}
BASE = "snapkv"  # all parts above are given; the rest is its own


def policy_text(parts):
    return " ".join([BASE] + [parts[name] for name in PARTS])


def is_possible(args, policy):
    """True if the program accepts the combination of parts."""
    command = [args.longhaul, "generate", "--policy"] + policy.split() + ["--budget", "64", "--help"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


# ---- measuring ----

# Runs of each measure: needles one for every seed, so that more of them can be added later.
SEEDS = {"aware-1": 2, "aware-4": 4, "only-1": 2, "fidelity": 1}
BUDGETS = {"aware-1": "128,256", "aware-4": "128,256", "only-1": "512,1024", "fidelity": "128,512"}


def command_of(args, name, seed):
    if name == "fidelity":
        own = ["eval", "fidelity", "--text", args.text, "--count", str(args.windows), "--max-new", "32"]
    else:
        own = ["eval", "needle", "--haystack", args.haystack, "--depth", args.depth, "--max-new", "24",
               "--scenario", "context-only" if name == "only-1" else "question-aware",
               "--keys", "4" if name == "aware-4" else "1", "--seed", str(seed)]
    return [args.longhaul] + own + ["--length", str(args.length), "--budget", BUDGETS[name], "-m", args.model,
                                    "--threads", str(args.threads), "--quiet"]


def run(args, name, seed, policies):
    """Rows of the answers of each policy; earlier measurements are read from the folder."""
    path = os.path.join(args.out, f"{name}-{seed}.json")
    known = json.load(open(path)) if os.path.exists(path) else {}
    new = [p for p in policies if p not in known]
    if new:
        answers = os.path.join(args.out, f"{name}-{seed}.csv")
        print(f"{name}, seed {seed}: {len(new)} policies", file=sys.stderr, flush=True)
        subprocess.run(command_of(args, name, seed) + ["--policy", ",".join(new), "--answers", answers], check=True,
                       stdout=subprocess.DEVNULL)
        with open(answers, newline="") as f:
            rows = [r for r in csv.DictReader(f) if r["policy"] != "full"]
        os.remove(answers)
        # the program says a policy as it resolves it, in the order that it was given
        names = list(dict.fromkeys(r["policy"] for r in rows))
        if len(names) != len(new):
            raise SystemExit(f"{name}: {len(new)} policies were measured as {len(names)}: {names}")
        said = dict(zip(names, new))
        for p in new:
            known[p] = []
        for r in rows:
            known[said[r["policy"]]].append(r)
        with open(path + ".new", "w") as f:
            json.dump(known, f)
        os.replace(path + ".new", path)
    return {p: known[p] for p in policies}


def measure(args, policies):
    """[policy][measure]: rows, each with the index of its prompt."""
    runs = [(name, seed) for name in SEEDS for seed in range(SEEDS[name])]
    with ThreadPoolExecutor(args.jobs) as pool:
        parts = dict(zip(runs, pool.map(lambda r: run(args, *r, policies), runs)))
    found = {p: {name: [] for name in SEEDS} for p in policies}
    for (name, seed), part in parts.items():
        for p in policies:
            key = "window" if name == "fidelity" else "depth"
            depths = sorted({float(r[key]) for r in part[p]})
            found[p][name] += [dict(r, prompt=seed * len(depths) + depths.index(float(r[key]))) for r in part[p]]
    return found


# ---- scores ----


def chooses(row):
    """True for the two of three prompts that the search uses; neighbours in depth and seed are spread over both sets."""
    return (row["prompt"] + row["prompt"] // 6) % 3 != 2


def value(name, row):
    if name == "fidelity":
        return float(row["best"])
    return float(row["words"])


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers) if numbers else float("nan")


def measured(found, name, choosing, budget=None):
    return mean(value(name, r) for r in found[name]
                if chooses(r) == choosing and (name == "fidelity" or r["answered"] == "1")
                and budget in (None, r["budget"]))


def score(found, choosing):
    return mean(measured(found, name, choosing) for name in SEEDS)


# ---- the search ----


def neighbours(args, best, values):
    """All policies that differ in one part."""
    changed = [(name, v) for name in values for v in values[name] if v != best[name]]
    return {(name, v): dict(best, **{name: v}) for name, v in changed
            if is_possible(args, policy_text(dict(best, **{name: v})))}


def search(args):
    best, rounds, values = dict(START), [], {name: list(PARTS[name]) for name in PARTS}
    while True:
        start, changes = policy_text(best), neighbours(args, best, values)
        found = measure(args, [start] + [policy_text(parts) for parts in changes.values()])
        scores = {p: score(found[p], True) for p in found}
        winner = max(scores, key=scores.get)
        rounds.append({"from": start, "scores": scores})
        print(f"round {len(rounds)}: {scores[winner]:.4f} {winner}", file=sys.stderr, flush=True)
        if winner == start:
            return winner, rounds
        for (name, v), parts in changes.items():
            if scores[policy_text(parts)] < scores[start] - args.drop:
                values[name].remove(v)
            if policy_text(parts) == winner:
                best = parts


def table(args, policies, choosing):
    found = measure(args, policies)
    cases = [(name, b) for name in SEEDS for b in BUDGETS[name].split(",")]
    head = ["policy", "score"] + [f"{name} {b}" for name, b in cases]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for p in policies:
        cells = [f"{score(found[p], choosing):.3f}"]
        cells += [f"{measured(found[p], name, choosing, b):.2f}" for name, b in cases]
        lines.append(f"| `{p}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(args, winner, rounds):
    start = rounds[0]["from"]
    peers = list(dict.fromkeys([winner, start] + args.peer))
    out = ["# What '--budget' alone should mean\n", f"Best: `{winner}`\n", "## Prompts that chose\n",
           table(args, peers, True), "\n## Prompts that did not\n", table(args, peers, False)]
    for i, r in enumerate(rounds, 1):
        out += [f"\n## Round {i}: from `{r['from']}`\n"]
        out += [f"- {s:.4f} `{p}`" for p, s in sorted(r["scores"].items(), key=lambda x: -x[1])]
    path = os.path.join(args.out, "choice.md")
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")
    print(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--longhaul", default="build/longhaul", help="the program (default: %(default)s)")
    p.add_argument("-m", "--model", required=True, help="a checkpoint of 'longhaul import'")
    p.add_argument("--haystack", required=True, help="texts that needles are hidden in")
    p.add_argument("--text", required=True, help="texts to continue")
    p.add_argument("-o", "--out", required=True, help="folder for measurements and choice.md")
    p.add_argument("--length", type=int, default=2000, help="tokens of a prompt (default: %(default)s)")
    p.add_argument("--depth", default="0.05:0.95:6", help="depths of a needle (default: %(default)s)")
    p.add_argument("--windows", type=int, default=6, help="windows of the texts (default: %(default)s)")
    p.add_argument("--peer", action="append", default=[], help="a policy that the report shows, too")
    p.add_argument("--drop", type=float, default=0.03, help="loss up to which a value is tried again (default: "
                   "%(default)s)")
    p.add_argument("--jobs", type=int, default=1, help="runs at a time (default: %(default)s)")
    p.add_argument("--threads", type=int, default=0, help="threads of each; 0: all cores (default: %(default)s)")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    winner, rounds = search(args)
    report(args, winner, rounds)


if __name__ == "__main__":
    main()
