#!/usr/bin/env python3
"""Measures `--rows-at text:FILE`: questions that are known when a prompt is read, of which one is asked.

  tools/measure_known_questions.py MODEL -o out/ --haystack books/ --length 1500 [--longhaul build/longhaul]

`longhaul eval needle --templates` hides facts of one kind in a prompt (question unseen, in the middle); each of them has a
question, and these are the file of the policies that know. Prints nats per token of the answer, share of its most likely
tokens, nats more than with the full cache, and the 95% interval of that over prompts (bootstrap). The same command goes on with
what is missing.
"""
import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict

from peer_prompts import add_options, evaluate, facts_of, interval, mean, prompts

GENERAL = """Who is mentioned in the text, and what do they do?
When does it happen, on which day and at what hour?
Where is it, in which place or building?
How many are there, and what is the number?
What is the name, and what is it called?
Why does it happen?
"""
KNOWN = "reconstruct --rows-at text:{known} --pool max --pool-size "
POLICIES = {"known, pooled over 31": KNOWN + "31", "known, pooled over 15": KNOWN + "15", "known, pooled over 7": KNOWN + "7",
            "known, not pooled": "reconstruct --rows-at text:{known} --pool none", "`learnt`": "learnt",
            "`reconstruct`": "reconstruct", "general, pooled over 31": KNOWN.replace("known", "general") + "31"}
FULL = "full"


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def decode(a, ids):
    return subprocess.run([a.longhaul, "tokenize", "-m", a.model, "--decode"], input=" ".join(map(str, ids)), text=True, check=True,
                          stdout=subprocess.PIPE).stdout


def know(a, name, kind, same):
    """The file of questions of a prompt."""
    evaluate(a.longhaul, a.output, f"{name}-prompt", "needle", *same, "--policy", "streaming", "--budget", "10%")
    (_, ids), = prompts(a.output, f"{name}-prompt")
    questions = [kind["question"].format(**fact) for fact in facts_of(kind, decode(a, ids))]
    return write(os.path.join(a.output, f"{name}.txt"), "".join(f"{q}\n" for q in dict.fromkeys(questions)))


def measure(a, kinds):
    """{(policy, budget), or FULL: [(nats, share) of every prompt]}."""
    measured = defaultdict(list)
    general = write(os.path.join(a.output, "general.txt"), GENERAL)
    for kind in kinds:
        for seed in range(a.seed, a.seed + a.prompts):
            name = f"{kind['name']}-{seed}"
            same = ["-m", a.model, "--haystack", a.haystack, "--templates", a.templates, "--kinds", kind["name"], "--keys", "6",
                    "--length", str(a.length), "--depth", "0.5", "--seed", str(seed), "--scenario", "context-only", "--max-new",
                    str(a.max_new), "--threads", str(a.threads), "--kv-dtype", "bf16"]
            files = {"known": know(a, name, kind, same), "general": general}
            for i, (policy, text) in enumerate(POLICIES.items()):
                rows = evaluate(a.longhaul, a.output, f"{name}-{i}", "needle", *same, "--budget", a.budgets, "--policy",
                                text.format(**files))
                for row in rows if i == 0 else rows[1:]:
                    at = (policy, row["budget"]) if row["budget"] else FULL
                    measured[at].append((float(row["answer_nll"]), float(row["answer_best"])))
            print(name, file=sys.stderr, flush=True)
    return measured


def show(a, measured):
    full = measured[FULL]
    print(f"\n{len(full)} prompts; the full cache: {mean([n for n, _ in full]):.2f} {mean([s for _, s in full]):.2f}\n")
    print("| policy | " + " | ".join(a.budgets.split(",")) + " |\n|---|" + "---:|" * len(a.budgets.split(",")))
    for policy in POLICIES:
        cells = []
        for budget in a.budgets.split(","):
            rows = measured[policy, budget]
            more = interval([n - m for (n, _), (m, _) in zip(rows, full)])
            cells.append(f"{mean([n for n, _ in rows]):.2f} {mean([s for _, s in rows]):.2f} ({more})")
        print(f"| {policy} | " + " | ".join(cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    add_options(p)
    p.add_argument("--templates", default="examples/facts.json", help="kinds of facts")
    p.add_argument("--kind", default="reporting", help="of these: a name, or what kinds are for")
    p.add_argument("--prompts", type=int, default=2, help="of each kind")
    p.add_argument("--seed", type=int, default=4400, help="of the first of them")
    p.add_argument("--budgets", default="10%,5%,2%")
    a = p.parse_args()
    os.makedirs(a.output, exist_ok=True)
    with open(a.templates, encoding="utf-8") as f:
        kinds = [kind for kind in json.load(f)["kinds"] if a.kind in (kind["name"], kind["for"])]
    show(a, measure(a, kinds))


if __name__ == "__main__":
    main()
