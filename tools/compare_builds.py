#!/usr/bin/env python3
"""Compares two builds of longhaul: keep sets, tokens and exit codes of every preset and of variants in single parts.

  tools/compare_builds.py OLD NEW --model M.h5 --prompt A.ids [--prompt B.ids …] [--ranks 1,3] [--quick]
                          [--cache FOLDER] [--only REGEX] [--skip REGEX] [--list]

OLD and NEW are programs. PROMPT.ids holds token ids, separated by white space, some 400 of them. Every run is `generate`
with the same prompt, --keep-sets and --json. Compared are all datasets of the file of keep sets, byte for byte, the token
ids and the exit code; a run that both builds refuse with the same code is the same. Each difference is a line, and the last
line says "N runs, M differ". --quick: one prompt, fewer budgets. --cache keeps the results of OLD in a folder, for the next
comparison with the same build. --only and --skip choose runs by their arguments; --list prints them. Needs h5py and numpy.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

import h5py

BUDGETS = ["24", "64", "150", "300", "8%", "20%", "75%"]
QUICK_BUDGETS = ["64", "75%"]

WINDOW = ["snapkv", "pyramidkv", "ada-snapkv", "critical-snapkv", "critical-ada-snapkv", "longhaul"]
RUNNING = ["h2o", "scissorhands", "mas", "roco"]
STATELESS = ["streaming", "recency", "random", "knorm", "keydiff", "tova"]

# Options that change a part, and the presets they are given to. HEADS and LAYERS stand for files of weights.
PARTS = [
    (WINDOW, ["--pool none", "--pool avg", "--pool-size 3", "--group max", "--group sum", "--group-stage score",
              "--group-stage score --pool avg", "--window 8", "--window 48", "--rows last:5", "--rows 10%",
              "--statistic sum --rows all", "--statistic sum --rows all --evict block:32", "--statistic sum",
              "--statistic count", "--statistic mas", "--sinks 4", "--recents 70", "--recents 90%", "--gain",
              "--gain --gain-floor", "--value-prior", "--non-causal", "--set-per layer", "--evict every:1",
              "--evict every:5", "--evict block:32", "--evict block:32,every:2 --layer-budget uniform",
              "--layer-budget pyramid", "--layer-budget pyramid --beta 5",
              "--head-budget adaptive --layer-budget adaptive --select topk", "--layer-budget LAYERS",
              "--head-budget HEADS", "--head-budget uniform", "--head-budget adaptive",
              "--head-budget HEADS --layer-budget LAYERS", "--positions slot", "--proxies 5%",
              "--proxies 5% --proxies-at both-ends", "--select two-stage", "--select two-stage --first-stage 0.2",
              "--select topk+sample --random-share 0.3"]),
    (["ada-snapkv", "critical-ada-snapkv"],
     ["--alpha 0.2", "--alpha 0", "--alpha 1", "--safeguard floor", "--safeguard floor --alpha 0.2",
      "--safeguard floor --layer-budget pyramid"]),
    (RUNNING, ["--evict every:5", "--evict never", "--evict block:32", "--evict block:32,every:1", "--positions slot",
               "--pool max", "--pool avg --pool-size 5", "--group max", "--group sum", "--window 16", "--rows last:32",
               "--sinks 4", "--set-per layer", "--head-budget adaptive", "--head-budget HEADS", "--layer-budget LAYERS",
               "--layer-budget pyramid", "--evict never --layer-budget adaptive --head-budget adaptive",
               "--select two-stage", "--select topk+sample --random-share 7/19", "--gain", "--value-prior"]),
    (STATELESS, ["--evict every:5", "--evict never", "--evict block:32", "--evict block:32,every:2", "--positions slot",
                 "--sinks 4", "--recents 10", "--window 8", "--pool max", "--set-per layer", "--head-budget adaptive",
                 "--head-budget HEADS", "--layer-budget pyramid", "--layer-budget LAYERS", "--value-prior",
                 "--evict never --layer-budget adaptive --head-budget adaptive"]),
    (["expected-attention"], ["--pool max", "--group max", "--head-budget adaptive", "--layer-budget pyramid", "--value-prior",
                              "--head-budget adaptive --layer-budget adaptive", "--set-per layer", "--head-budget HEADS"]),
    (["roco"], ["--std-share 0.5", "--std-share 0.5 --evict block:32"]),
    (["ahakv"], ["--gain-floor", "--gain=off", "--value-prior=off", "--rows last:8", "--evict never", "--evict block:32",
                 "--head-budget adaptive"]),
    (["nacl"], ["--sinks 8", "--sinks 8 --random-share 0.5", "--sinks 8 --seed 7", "--sinks 8 --proxies 5%",
                "--sinks 8 --proxies 5% --proxies-at both-ends", "--sinks 8 --evict every:3"]),
    (["random"], ["--seed 7"]),
]

# Questions: with evictions while decoding, one.
QUESTION = ["--question", "Who was there, and why?"]
QUESTIONS = QUESTION + ["--question", "What then?"]
ASKED = [("--scenario context-only", ["ada-snapkv", "h2o", "tova", "keydiff", "streaming", "roco", "ahakv", "nacl --sinks 8"]),
         ("--scenario question-aware", ["ada-snapkv", "h2o", "expected-attention", "nacl --sinks 8"]),
         ("--scenario question-aware --proxies question", ["snapkv", "ada-snapkv", "nacl --sinks 8"]),
         ("--scenario question-aware --proxies question --non-causal", ["snapkv"]),
         ("--proxies question", ["snapkv", "nacl --sinks 8"])]

# Options that are not part of the policy.
OTHER = ["--chunk 64", "--deterministic", "--dtype bf16", "--kv-dtype bf16", "--device ref", "--temperature 1 --seed 3",
         "--temperature 0.8 --top-k 20 --seed 4", "--temperature 1.2 --top-p 0.9 --min-p 0.02 --seed 5",
         "--repeat-penalty 1.3"]
OTHER_BASES = ["full", "ada-snapkv", "h2o", "keydiff"]


class Run:
    """Arguments of one comparison, without model, prompt and budget. reload: save the cache, then continue from it."""

    def __init__(self, arguments, budgets, reload=False):
        self.arguments, self.budgets, self.reload = arguments, budgets, reload


def runs(presets, quick):
    all_budgets = QUICK_BUDGETS if quick else BUDGETS
    few = QUICK_BUDGETS[:1] if quick else ["40", "150", "20%"]
    for name in presets:
        yield Run(["--policy", name], [None] if name == "full" else all_budgets)
    yield Run([], ["64", "20%"])
    turn = 0
    for bases, options in PARTS:
        for option in options:
            # Quick: each option once, and the presets take turns.
            for name in bases[turn % len(bases):turn % len(bases) + 1] if quick else bases:
                yield Run(["--policy", name] + option.split(), few)
            turn += 1
    for option, bases in ASKED:
        for name in bases:
            yield Run(["--policy"] + name.split() + option.split() + QUESTION, few)
    for name in ["snapkv", "longhaul", "streaming", "full"]:
        policy = ["--policy"] + name.split() + (["--evict", "never"] if name == "streaming" else [])
        yield Run(policy + QUESTIONS, [None] if name == "full" else few)
    for option in OTHER:
        for name in OTHER_BASES:
            yield Run(["--policy", name] + option.split(), [None] if name == "full" else few[:1])
    for name in ["full", "snapkv", "ada-snapkv", "h2o", "roco", "keydiff", "streaming --positions slot", "nacl --sinks 8",
                 "expected-attention", "random", "ada-snapkv --evict every:4"]:
        yield Run(["--policy"] + name.split(), [None] if name == "full" else few[:1], reload=True)


def model_json(program, model):
    return json.loads(subprocess.run([program, "info", model, "--json", "-q"], check=True, capture_output=True, text=True).stdout)


def presets_of(program):
    """Presets as `info` lists them; names that the other build lacks are compared, too."""
    info = json.loads(subprocess.run([program, "info", "--json", "-q"], check=True, capture_output=True, text=True).stdout)
    return list(info["policies"])


def write_weights(model, folder):
    """Uneven weights of layers and heads, as files."""
    paths = {"HEADS": os.path.join(folder, "heads.csv"), "LAYERS": os.path.join(folder, "layers.csv")}
    with open(paths["HEADS"], "w") as f:
        f.write("layer,head,weight\n")
        for l in range(model["layers"]):
            for h in range(model["kv_heads"]):
                f.write(f"{l},{h},{1 + (7 * l + 5 * h) % 4}\n")
    with open(paths["LAYERS"], "w") as f:
        f.write("layer,weight\n")
        for l in range(model["layers"]):
            f.write(f"{l},{3 - l % 3}\n")
    return paths


def keep_sets(path):
    """A digest of each dataset."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found["/" + name] = f"{item.dtype} {item.shape} {hashlib.sha256(item[()].tobytes()).hexdigest()}"

    with h5py.File(path) as f:
        f.visititems(visit)
    return found


def token_ids(value):
    """All lists of token ids in the JSON of a run, in order."""
    found = []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += [inner] if key == "token_ids" else token_ids(inner)
    elif isinstance(value, list):
        for inner in value:
            found += token_ids(inner)
    return found


def result(program, ranks, arguments, out=None):
    """The result of one run: exit code, token ids, digests of the keep sets that it writes to `out`."""
    command = (["mpirun", "-n", str(ranks)] if ranks > 1 else []) + [program, "generate"] + arguments
    if out:
        command += ["--keep-sets", out]
        if os.path.exists(out):
            os.remove(out)
    done = subprocess.run(command + ["--json", "-q", "--ignore-eos"], capture_output=True, text=True)
    found = {"exit code": done.returncode}
    if done.returncode == 0:
        found["token ids"] = token_ids(json.loads(done.stdout))
        found.update(keep_sets(out) if out else {})
    else:
        found["_message"] = done.stderr.strip().splitlines()[:1]
    return found


def both_steps(program, ranks, run, start, tail, folder):
    """One run; for a run that reloads: saving, then continuing."""
    out = os.path.join(folder, "kept.h5")
    if not run.reload:
        return result(program, ranks, start + run.arguments + tail, out)
    cache = os.path.join(folder, "cache.h5")
    if os.path.exists(cache):
        os.remove(cache)
    found = result(program, ranks, start + run.arguments + tail + ["--save-cache", cache], out)
    if found["exit code"] == 0:
        again = result(program, ranks, start[:2] + start[4:] + ["--load-cache", cache] + QUESTION)
        found.update({"reloaded " + key.strip("_"): value for key, value in again.items() if key != "_message"})
    return found


def differences(old, new):
    for key in sorted(set(old) | set(new)):
        if key.startswith("_") or old.get(key) == new.get(key):
            continue
        if key in ("exit code", "reloaded exit code"):
            message = " ".join(new.get("_message", []) or old.get("_message", []))
            yield f"{key} {old.get(key)} and {new.get(key)} {message}".rstrip()
        elif key in old and key in new:
            yield f"{key} differs"
        elif old.get("exit code") == new.get("exit code"):
            yield f"{key} is only in the {'old' if key in old else 'new'} one"


def fingerprint(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def remembered(folder, key, make):
    """The result stored under `key`, or made and stored."""
    if not folder:
        return make()
    path = os.path.join(folder, hashlib.sha256(repr(key).encode()).hexdigest()[:32] + ".json")
    if os.path.exists(path):
        with open(path) as f:
            return json.load(f)
    found = make()
    with open(path + f".{os.getpid()}", "w") as f:
        json.dump(found, f)
    os.rename(path + f".{os.getpid()}", path)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", action="append", required=True, help="file of token ids; may be given several times")
    parser.add_argument("--ranks", default="1", help="numbers of ranks, such as 1,3")
    parser.add_argument("--max-new", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cache", help="folder for the results of OLD")
    parser.add_argument("--only", default="", help="regular expression: only runs whose line matches")
    parser.add_argument("--skip", default="^$", help="regular expression: leave out runs whose line matches")
    parser.add_argument("--list", action="store_true", help="print the runs, and run nothing")
    options = parser.parse_args()
    if options.cache:
        os.makedirs(options.cache, exist_ok=True)
    presets = presets_of(options.old)
    missing = [name for name in presets if name not in presets_of(options.new)]
    builds = {"old": fingerprint(options.old), "model": fingerprint(options.model)}
    count = differ = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        weights = write_weights(model_json(options.old, options.model), folder)
        for run in runs(presets, options.quick):
            shown = run.arguments
            run.arguments = [weights.get(word, word) for word in shown]
            for ranks in [int(r) for r in options.ranks.split(",")]:
                for prompt in options.prompt[:1] if options.quick else options.prompt:
                    for budget in run.budgets:
                        tail = ["--budget", budget] if budget else []
                        line = f"{ranks}r {os.path.basename(prompt)} {' '.join(shown + tail)}{' reload' if run.reload else ''}"
                        if not re.search(options.only, line) or re.search(options.skip, line):
                            continue
                        count += 1
                        if options.list:
                            print(line)
                            continue
                        start = ["-m", options.model, "--prompt-tokens", prompt, "-n", str(options.max_new), "--threads",
                                 str(options.threads)]
                        key = (builds, fingerprint(prompt), line, options.max_new, options.threads)
                        old = remembered(options.cache, key,
                                         lambda: both_steps(options.old, ranks, run, start, tail, folder))
                        refused += old["exit code"] != 0
                        found = list(differences(old, both_steps(options.new, ranks, run, start, tail, folder)))
                        for difference in found:
                            print(f"{line}: {difference}", flush=True)
                        differ += bool(found)
    for name in missing:
        print(f"preset {name} is not in {options.new}")
    if refused:
        print(f"{refused} runs are refused by the old build")
    print(f"{count} runs, {differ} differ")
    sys.exit(differ > 0 or bool(missing))


if __name__ == "__main__":
    main()
