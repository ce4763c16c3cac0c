#!/usr/bin/env python3
"""Search the combination of a policy's parts that measures best: the candidate for the default policy of '--budget'.

There are two defaults, and --case says which: 'seen' is for prompts that end with their question, 'unseen' for prompts
that are evicted before any question is asked. A policy is measured by 'longhaul eval', on every model of -m:

  kl, best                         fidelity: KL divergence from the full cache in nats; how often the best token agrees
  answer_nll, answer_best, exact   needle: likelihood of the secret, share of its tokens that are the most likely ones,
                                   exact answers; of one needle, and of one among four

Its loss is 0 for the full cache and 1 for the policy 'random': for each measure and budget, the sum of what the policy
loses to the full cache over that of what 'random' loses, on the same prompts. The mean of kl and best and the mean of
the three measures of answers count one half each, and all budgets alike. Budgets and measures at which 'random' loses
nothing do not count. The lowest loss is the best policy.

The texts are split: of every three files the first two are searched with, the third is for the report alone. Each set is
joined and cut into parts; a part gives one window and one needle of each length.

  halving    known policies and random combinations of parts, on as many parts of the texts as the first of --rounds says,
             then the best third of them on more ("successive halving"). The best one's neighbours, which differ from it
             in one part, compete with it in the same way, --steps times
  finals     the best --finalists so far, at all lengths and budgets: the best is the choice
  report     the finalists and every --peer on the texts of the report

Measurements are appended to results.jsonl in the folder -o: the same command goes on after an interrupt, and repeats
nothing when it is given more --steps. Needs only Python's standard library. About 15 minutes on two cores:

  tools/choose_default.py --case unseen -m smollm2.h5 --text essays/ -o choice/
"""
import argparse
import csv
import hashlib
import io
import itertools
import json
import math
import os
import random
import shlex
import subprocess
import sys

# Values of each part, as options of the program; combinations that it refuses are left out. The first value of a part is
# that of policies that do not say another. A fit needs rows that see everything.
AFTER = "snapkv --window 16 --rows-at after"
LARGEST = "snapkv --window 16 --rows last:64 --statistic max"
PARTS = {
    "scores": ["snapkv --window 16", "snapkv --window 32", "snapkv --window 64", LARGEST, f"{AFTER} --statistic mean",
               f"{AFTER} --statistic rms", f"{AFTER} --statistic rms --rows sample:256",
               f"{AFTER} --statistic rms --rows sample:1024", f"{AFTER} --statistic max", "keydiff --evict never",
               "leverage --evict never", "lagkv --evict never", "defensive", "defensive --rows-at after",
               "expected-attention --evict never"],
    "pool": ["--pool avg --pool-size 15", "--pool none", "--pool avg --pool-size 7", "--pool avg --pool-size 31",
             "--pool max --pool-size 7", "--pool max --pool-size 15", "--pool max --pool-size 31"],
    "heads": ["--head-budget uniform", "--head-budget adaptive --alpha 0.2", "--head-budget adaptive --alpha 0.5",
              "--head-budget adaptive --alpha 0.2 --compete-by losses"],
    "layers": ["--layer-budget uniform", "--layer-budget pyramid", "--layer-budget adaptive"],
    "sinks": ["--sinks 4", "--sinks 0", "--sinks 16"],
    "recents": ["", "--recents 32"],
    "group": ["", "--group max"],
    "select": ["", "--select two-stage", "--select topk+keys", "--select topk+keys --key-share 0.65",
               "--select topk+keys --row-share 0.3"],
    "fit": ["", "--rows-at after --fit both --ridge 0.1", "--rows-at after --fit both --ridge 0.01",
            "--rows-at after --fit values --ridge 0.1"],
}
FIT, ADAPTIVE, LOSSES = PARTS["fit"][1], PARTS["heads"][1], PARTS["heads"][3]
KNOWN = {
    "seen": [{"scores": s, "pool": p, "heads": h} for s in PARTS["scores"][:2] for p in PARTS["pool"][5:7]
             for h in PARTS["heads"][:2]]
    + [{"scores": LARGEST, "pool": PARTS["pool"][6], "heads": ADAPTIVE, "layers": x} for x in PARTS["layers"]],
    "unseen": [{"scores": s, "heads": h, "fit": f} for s in ("keydiff --evict never", "leverage --evict never",
                                                             f"{AFTER} --statistic rms", "defensive --rows-at after")
               for h in PARTS["heads"][:2] for f in ("", FIT)]
    + [{"scores": s, "heads": ADAPTIVE, "recents": "--recents 32", "fit": f}
       for s in ("keydiff --evict never", "leverage --evict never") for f in ("", FIT)]
    + [{"scores": s, "pool": p, "heads": ADAPTIVE, "layers": "--layer-budget adaptive"}
       for s, p in ((f"{AFTER} --statistic rms", PARTS["pool"][5]), ("defensive", PARTS["pool"][1]))]
    + [{"scores": s, "pool": p, "heads": LOSSES, "layers": "--layer-budget adaptive", "select": k, "fit": f}
       for s, p in ((f"{AFTER} --statistic rms", PARTS["pool"][5]), ("leverage --evict never", PARTS["pool"][0]),
                    ("keydiff --evict never", PARTS["pool"][0]))
       for k in ("", PARTS["select"][2]) for f in ("", FIT) if not (k and s.startswith("keydiff"))],
}
BASE = "random"  # whose loss is 1
SCENARIO = {"seen": "question-aware", "unseen": "context-only"}

# Measures of a task, with the sign that makes more a loss.
TASKS = {"fidelity": {"kl": 1, "best": -1}, "needle": {"answer_nll": 1, "answer_best": -1, "exact": -1}}
MEASURES = [(task, name, sign) for task in TASKS for name, sign in TASKS[task].items()]


def policy_of(parts):
    return " ".join(filter(None, (parts.get(name, values[0]) for name, values in PARTS.items())))


def call(args, options):
    """What the program did."""
    try:
        return subprocess.run(args.longhaul + options, capture_output=True, text=True)
    except OSError as e:
        raise SystemExit(f"cannot run '{args.longhaul[0]}': {e.strerror}. Name the program with '--longhaul'")


# ---- texts ----


def text_files(path):
    if os.path.isfile(path):
        raise SystemExit(f"'--text {path}' is one file: give a folder of at least three, which can be split")
    files = sorted(os.path.join(path, f) for f in os.listdir(path) if f.endswith((".txt", ".md")))
    if len(files) < 3:
        raise SystemExit(f"'--text {path}' has {len(files)} texts, '*.txt' and '*.md': at least three can be split")
    return files


def read_texts(files):
    texts = []
    for path in files:
        with open(path, encoding="utf-8") as f:
            texts.append(f.read())
    return "\n\n".join(texts)


def part_characters(args):
    return int(args.characters * max(args.length))


def cut_parts(args, name, count):
    """Writes the first `count` parts of some texts; their paths. A part ends with a line."""
    paths, part = [], ""
    for line in read_texts(args.files[name]).splitlines(keepends=True):
        part += line
        if len(part) >= part_characters(args):
            paths.append(os.path.join(args.out, f"{name}-{len(paths)}.txt"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(part)
            part = ""
        if len(paths) == count:
            return paths
    raise SystemExit(f"{len(args.files[name])} texts for the {name} have {len(paths)} parts of {part_characters(args)} "
                     f"characters, not {count}: give more with '--text', or ask for fewer")


# ---- measuring ----


class Results:
    """Measures by (model, part, length, policy, budget), kept in a file."""

    def __init__(self, args):
        self.args, self.path = args, os.path.join(args.out, "results.jsonl")
        self.known, self.names = {}, {}  # names: as the program resolves policies
        settings = self.settings()
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                lines = [line for line in f if line.endswith("\n")]  # the last one may be cut off
            was = json.loads(lines[0]) if lines else settings
            for name in settings:
                if was.get(name) != settings[name]:
                    raise SystemExit(f"'{self.path}' was measured with another {name}: {was.get(name)}, not "
                                     f"{settings[name]}. Name another folder with '-o'")
            for line in lines[1:]:
                self.take(json.loads(line))
        else:
            lines = []
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(lines or [json.dumps(settings) + "\n"])

    def settings(self):
        args = self.args
        version = call(args, ["--version"]).stdout
        texts = "".join(read_texts(args.files[name]) for name in sorted(args.files))
        return {"program": version.splitlines()[0], "case": args.case, "characters": part_characters(args),
                "text": hashlib.sha256(texts.encode()).hexdigest(), "max-new": args.max_new, "options": args.options}

    def take(self, row):
        key = row["model"], row["part"], row["length"], row["policy"], row["budget"]
        self.names[row["policy"]] = row["name"]
        self.known.setdefault(key, {}).update({name: row[name] for name in row if name in
                                               {measure for _, measure, _ in MEASURES}})

    def get(self, model, part, length, policy, budget):
        return self.known[os.path.basename(model), os.path.basename(part), length, policy, budget]

    def is_known(self, task, model, part, length, policy, budget):
        found = self.known.get((os.path.basename(model), os.path.basename(part), length, policy, budget), {})
        return all(name in found for name in TASKS[task])

    def command(self, task, model, part, length):
        args, number = self.args, int(os.path.splitext(part)[0].rsplit("-", 1)[1])
        if task == "fidelity":
            own = ["--text", part, "--count", "1"]
        else:  # depths are spread over the parts
            own = ["--haystack", part, "--depth", f"{(0.1 + 0.382 * number) % 1:.3f}", "--seed", str(number),
                   "--keys", "4" if number % 2 else "1", "--scenario", SCENARIO[args.case]]
        return ["eval", task, "-m", model, "--length", str(length), "--max-new", str(args.max_new),
                "--quiet"] + own + args.options

    def measure(self, policies, parts, lengths, budgets):
        """One call of the program for each model, part, length and task: its one prefill serves all policies."""
        for model, part, length, task in itertools.product(self.args.model, parts, lengths, TASKS):
            missing = [(p, b) for p in dict.fromkeys([BASE] + policies) for b in budgets
                       if not self.is_known(task, model, part, length, p, b)]
            new = list(dict.fromkeys(p for p, _ in missing))
            if not new:
                continue
            print(f"{task}, {os.path.basename(part)}, {length} tokens, {os.path.basename(model)}: {len(new)} policies",
                  file=sys.stderr, flush=True)
            run = call(self.args, self.command(task, model, part, length) + [
                "--policy", ",".join(new), "--budget", ",".join(dict.fromkeys(b for _, b in missing)), "--answers", "-"])
            if run.returncode:
                raise SystemExit(f"{run.stderr}exit code {run.returncode} of: {shlex.join(run.args)}")
            self.keep(task, (model, part, length), new, list(csv.DictReader(io.StringIO(run.stdout))))

    def keep(self, task, where, policies, rows):
        """The program names a policy as it resolves it, in the order in which they were given."""
        names = list(dict.fromkeys(r["policy"] for r in rows if r["policy"] != "full"))
        if len(names) != len(policies):
            raise SystemExit(f"{task}: {len(policies)} policies were measured as {len(names)}: {names}")
        said = dict(zip(names, policies), full="full")
        with open(self.path, "a", encoding="utf-8") as f:
            for r in rows:
                row = {"model": os.path.basename(where[0]), "part": os.path.basename(where[1]), "length": where[2],
                       "policy": said[r["policy"]], "name": r["policy"], "budget": r["budget"]}
                row.update({name: float(r[name]) if r[name] else None for name in TASKS[task]})
                self.take(row)
                f.write(json.dumps(row) + "\n")


# ---- the loss ----


def mean(numbers):
    numbers = [x for x in numbers if x is not None]
    return sum(numbers) / len(numbers) if numbers else None


def losses(results, policy, parts, lengths, budgets):
    """[budget][measure]: the share of what BASE loses to the full cache, None where that is nothing."""
    found = {b: {} for b in budgets}
    for budget, (_, name, sign) in itertools.product(budgets, MEASURES):
        own = base = 0.0
        for model, part, length in itertools.product(results.args.model, parts, lengths):
            full = results.get(model, part, length, "full", "")[name]
            values = [results.get(model, part, length, p, budget)[name] for p in (policy, BASE)]
            if full is None or None in values:
                continue  # the full cache said one token only
            own += sign * (values[0] - full)
            base += sign * (values[1] - full)
        found[budget][name] = own / base if base > 0 else None
    return found


def loss_at(by_measure):
    halves = [mean(by_measure[name] for name in TASKS[task]) for task in TASKS]
    return mean(halves)


def loss(results, policy, parts, lengths, budgets):
    found = mean(loss_at(x) for x in losses(results, policy, parts, lengths, budgets).values())
    return math.inf if found is None else found


def spread(results, policies, parts, lengths, budgets):
    """Over 200 draws of the parts with replacement: each policy's standard deviation of the loss, and how often it is
    the best."""
    rng = random.Random(0)
    draws = [rng.choices(parts, k=len(parts)) for _ in range(200)]
    table = {p: [loss(results, p, d, lengths, budgets) for d in draws] for p in policies}
    best = [min(policies, key=lambda p: table[p][i]) for i in range(len(draws))]
    found = {}
    for p in policies:
        centre = mean(table[p])
        found[p] = math.sqrt(mean((x - centre) ** 2 for x in table[p])), best.count(p) / len(draws)
    return found


# ---- the search ----


class Candidates:
    """Combinations of parts that the program accepts. Two that it resolves to the same policy are one."""

    def __init__(self, args):
        self.args, self.parts, self.seen = args, {}, {}

    def add(self, parts):
        """The policy's text, or None."""
        policy = policy_of(parts)
        run = call(self.args, ["generate", "--budget", "10%", "--help", "--policy"] + policy.split())
        if run.returncode:
            return None
        policy = self.seen.setdefault(run.stdout, policy)
        self.parts.setdefault(policy, parts)
        return policy

    def start(self):
        rng, found = random.Random(self.args.seed), [self.add(parts) for parts in KNOWN[self.args.case]]
        for _ in range(100 * self.args.start):
            if len(set(found) - {None}) >= self.args.start:
                break
            found.append(self.add({name: rng.choice(values) for name, values in PARTS.items()}))
        return list(dict.fromkeys(p for p in found if p))

    def neighbours(self, policy):
        parts = self.parts[policy]
        found = [self.add(dict(parts, **{name: value})) for name, values in PARTS.items() for value in values]
        return list(dict.fromkeys([policy] + [p for p in found if p]))


def halve(results, policies, log):
    """The policies that are left in the last round, the best first."""
    args = results.args
    where = args.length[:1], args.round_budget
    for i, count in enumerate(args.rounds):
        parts = args.parts["search"][:count]
        results.measure(policies, parts, *where)
        order = sorted(policies, key=lambda p: loss(results, p, parts, *where))
        log.append((f"{len(policies)} policies on {len(parts)} parts",
                    [(loss(results, p, parts, *where), p) for p in order]))
        print(f"{log[-1][0]}: {log[-1][1][0][0]:.3f} {results.names[order[0]]}", file=sys.stderr, flush=True)
        if i + 1 < len(args.rounds):
            policies = order[:max(args.finalists, math.ceil(len(order) / 3))]
    return order


def search(results):
    args, log = results.args, []
    candidates, where = Candidates(args), (args.length[:1], args.round_budget)
    parts = args.parts["search"][:args.rounds[-1]]
    finalists = halve(results, candidates.start(), log)
    for _ in range(args.steps):
        best = finalists[0]
        found = halve(results, candidates.neighbours(best), log)
        finalists = sorted(dict.fromkeys(finalists + found), key=lambda p: loss(results, p, parts, *where))
        if finalists[0] == best:
            break
    finalists = finalists[:args.finalists]
    results.measure(finalists, parts, args.length, args.budget)
    return sorted(finalists, key=lambda p: loss(results, p, parts, args.length, args.budget)), parts, log


# ---- the report ----


def markdown(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
                     + ["| " + " | ".join(row) + " |" for row in rows])


def summary(results, policies, parts):
    args = results.args
    where = args.length, args.budget
    spreads = spread(results, policies, parts, *where)
    rows = []
    for p in sorted(policies, key=lambda p: loss(results, p, parts, *where)):
        by_budget = losses(results, p, parts, *where)
        cells = [f"{loss_at(by_budget[b]):.3f}" if loss_at(by_budget[b]) is not None else "–" for b in args.budget]
        rows.append([f"`{results.names[p]}`", f"{loss(results, p, parts, *where):.3f}", f"{spreads[p][0]:.3f}",
                     f"{100 * spreads[p][1]:.0f}%"] + cells)
    return markdown(["policy", "loss", "±", "best in"] + list(args.budget), rows)


def details(results, policies, parts, model, length):
    """Means over the parts, with the full cache."""
    def cells(policy, budget):
        found = [results.get(model, part, length, policy, budget) for part in parts]
        values = [mean(x[name] for x in found) for _, name, _ in MEASURES]
        return " ".join("–" if v is None else f"{v:.3f}" if name == "kl" else f"{v:.2f}"
                        for v, (_, name, _) in zip(values, MEASURES))
    rows = [["`full`"] + [cells("full", "")] * len(results.args.budget)]
    rows += [[f"`{results.names[p]}`"] + [cells(p, b) for b in results.args.budget] for p in policies + [BASE]]
    return markdown(["policy"] + list(results.args.budget), rows)


def report(results, ranking, parts, log):
    args = results.args
    policies, others = list(dict.fromkeys(ranking + args.peer)), args.parts["report"]
    results.measure(policies, others, args.length, args.budget)
    out = [f"# What '--budget' alone should mean: {args.case}\n", f"Best: `{results.names[ranking[0]]}`\n",
           f"Loss: 0 the full cache, 1 `{BASE}`. ±: standard deviation over draws of the prompts; best in: the share of "
           "these draws. By budget: the loss there.\n",
           f"## Texts that chose: {len(parts)} parts\n", summary(results, ranking, parts),
           f"\n## Texts that did not: {len(others)} parts\n", summary(results, policies, others)]
    for model, length in itertools.product(args.model, args.length):
        out += [f"\n### {os.path.basename(model)}, {length} tokens: {' '.join(name for _, name, _ in MEASURES)}\n",
                details(results, policies, others, model, length)]
    print("\n".join(out))
    for title, order in log:
        out += [f"\n## Round: {title}\n"] + [f"- {x:.3f} `{results.names[p]}`" for x, p in order]
    out += ["\n## Texts\n"] + [f"- {name}: {', '.join(os.path.basename(f) for f in files)}"
                               for name, files in args.files.items()]
    with open(os.path.join(args.out, "choice.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--case", choices=SCENARIO, required=True, help="is the question in the prompt that is evicted?")
    p.add_argument("-m", "--model", action="append", required=True, help="a checkpoint of 'longhaul import'; repeatable")
    p.add_argument("--text", required=True, help="folder of texts (*.txt, *.md)")
    p.add_argument("-o", "--out", required=True, help="folder for measurements and choice.md")
    p.add_argument("--length", type=numbers, default="2000,6000", help="tokens of prompts; rounds use the first "
                   "(default: %(default)s)")
    p.add_argument("--budget", default="5%,10%,20%,50%", help="budgets of finals and report (default: %(default)s)")
    p.add_argument("--round-budget", default="10%,20%", help="budgets of the rounds (default: %(default)s)")
    p.add_argument("--start", type=int, default=32, help="policies of the first round (default: %(default)s)")
    p.add_argument("--rounds", type=numbers, default="2,6", help="parts of the texts in each round (default: %(default)s)")
    p.add_argument("--steps", type=int, default=1, help="times that neighbours of the best are tried (default: "
                   "%(default)s)")
    p.add_argument("--finalists", type=int, default=3, help="policies of the finals (default: %(default)s)")
    p.add_argument("--report-parts", type=int, default=4, help="parts of the report's texts (default: %(default)s)")
    p.add_argument("--peer", action="append", default=[], help="a policy that the report shows, too; repeatable")
    p.add_argument("--max-new", type=int, default=24, help="tokens of an answer or a continuation (default: %(default)s)")
    p.add_argument("--characters", type=float, default=5, help="characters of a text per token (default: %(default)s)")
    p.add_argument("--seed", type=int, default=0, help="of the random combinations (default: %(default)s)")
    p.add_argument("--longhaul", default="build/longhaul", help="the program, such as 'mpirun -n 2 longhaul' (default: "
                   "%(default)s)")
    p.add_argument("--options", default="", help="more options of 'longhaul eval', such as '--threads 2'")
    args = p.parse_args()
    args.longhaul, args.options = shlex.split(args.longhaul), shlex.split(args.options)
    args.budget, args.round_budget = args.budget.split(","), args.round_budget.split(",")
    os.makedirs(args.out, exist_ok=True)
    files = text_files(args.text)
    args.files = {"report": files[2::3], "search": [f for i, f in enumerate(files) if i % 3 != 2]}
    args.parts = {"search": cut_parts(args, "search", args.rounds[-1]),
                  "report": cut_parts(args, "report", args.report_parts)}
    results = Results(args)
    report(results, *search(results))


if __name__ == "__main__":
    main()
