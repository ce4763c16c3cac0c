#!/usr/bin/env python3
"""Requests of 'longhaul batch' with prompts of random tokens, for measurements: their lengths are drawn evenly, or are those of recorded
traffic. JSON Lines on stdout.

  tools/make_requests.py drawn --count 64 --tokens 1000:4000 --new 64 > r.jsonl
  tools/make_requests.py shared --count 64 --of-each 8 --tokens 1000:4000 --new 64 > r.jsonl   eight questions about each context
  tools/make_requests.py traffic mooncake_trace.jsonl --count 200 --scale 0.25 --most 4000 > r.jsonl
  tools/make_requests.py traffic AzureLLMInferenceTrace_conv.csv --count 200 > r.jsonl

A trace of Mooncake (JSON Lines: input_length, output_length, hash_ids of blocks of 512 tokens) also says which prompts begin alike: blocks
with one hash have the same tokens. A trace of Azure is a table with ContextTokens and GeneratedTokens. --scale shortens prompts, answers and
blocks alike; longer prompts than --most are cut. Needs only Python's standard library.
"""
import argparse
import csv
import json
import random

BLOCK = 512  # tokens of a block of Mooncake


def tokens(key, n, vocab):
    draw = random.Random(key)
    return [draw.randrange(vocab // 2, vocab) for _ in range(n)]


def write(i, prompt, new, **more):
    print(json.dumps({"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions",
                      "body": {"prompt": prompt, "max_tokens": max(1, new), "ignore_eos": True}, **more}))


def drawn(a, lengths):
    for i in range(a.count):
        write(i, tokens(f"{a.seed} {i}", lengths.randint(*a.tokens), a.vocab), a.new)


def shared(a, lengths):
    for i in range(a.count):
        if i % a.of_each == 0:
            context = tokens(f"{a.seed} {i}", lengths.randint(*a.tokens), a.vocab)
        write(i, context + tokens(f"{a.seed} question {i}", a.question, a.vocab), a.new, context_id=f"c{i // a.of_each}")


def rows_of(path):
    """Length of the prompt, of the answer, and keys of its blocks or None."""
    with open(path, encoding="utf-8") as f:
        if path.endswith(".csv"):
            for row in csv.DictReader(f):
                yield int(row["ContextTokens"]), int(row["GeneratedTokens"]), None
        else:
            for line in f:
                row = json.loads(line)
                yield row["input_length"], row["output_length"], row["hash_ids"]


def traffic(a, _):
    for i, (prompt, new, blocks) in zip(range(a.count), rows_of(a.trace)):
        n = max(1, min(a.most, round(prompt * a.scale)))
        block = max(1, round(BLOCK * a.scale))
        ids = []
        for key in blocks or []:
            ids += tokens(f"{a.seed} block {key}", block, a.vocab)
        ids += tokens(f"{a.seed} rest {i}", max(0, n - len(ids)), a.vocab)
        write(i, ids[:n], round(new * a.scale))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = p.add_subparsers(required=True, metavar="KIND")
    for name, run in ("drawn", drawn), ("shared", shared), ("traffic", traffic):
        k = kinds.add_parser(name)
        k.set_defaults(run=run)
        k.add_argument("--count", type=int, default=64)
        k.add_argument("--vocab", type=int, default=49152, help="tokens are drawn from the upper half of so many")
        k.add_argument("--seed", type=int, default=1)
        if name == "traffic":
            k.add_argument("trace")
            k.add_argument("--scale", type=float, default=1)
            k.add_argument("--most", type=int, default=4000)
        else:
            k.add_argument("--tokens", type=lambda s: tuple(map(int, s.split(":"))), default=(1000, 4000), metavar="LEAST:MOST")
            k.add_argument("--new", type=int, default=64)
        if name == "shared":
            k.add_argument("--of-each", type=int, default=8, help="requests that share a context")
            k.add_argument("--question", type=int, default=32, help="tokens of a question after its context")
    a = p.parse_args()
    a.run(a, random.Random(a.seed))


if __name__ == "__main__":
    main()
