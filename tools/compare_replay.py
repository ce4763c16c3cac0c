#!/usr/bin/env python3
"""Times `longhaul replay` beside what a notebook does: for every policy and budget a mask over the whole attention of the
reference rows, a softmax and a product, in torch on the same cores. Both give attention kept and perturbation (L2) of
every query head; torch gets masks of the size of the budget, and chooses nothing.

    tools/compare_replay.py TRACE --program build/longhaul --policy snapkv,h2o --budget 5%,10%
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import longhaul

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("trace")
arguments.add_argument("--program", default="build/longhaul")
arguments.add_argument("--policy", required=True)
arguments.add_argument("--budget", required=True)
arguments.add_argument("--rows", type=int, default=64)
arguments.add_argument("--threads", type=int, default=os.cpu_count())
a = arguments.parse_args()
torch.set_num_threads(a.threads)
torch.set_grad_enabled(False)

command = [a.program, "replay", a.trace, "--policy", a.policy, "--budget", a.budget, "--judge-rows", str(a.rows),
           "--analyse", "mass,perturbation", "--threads", str(a.threads), "-q"]
with tempfile.TemporaryDirectory() as folder:
    start = time.monotonic()
    subprocess.run([*command, "-o", f"{folder}/a.h5"], check=True, stdout=subprocess.DEVNULL)
    replay_s = time.monotonic() - start
    analysis = longhaul.Analysis(f"{folder}/a.h5")
    trace = longhaul.Trace(a.trace)
    budgets = a.budget.split(",")
    policies = [p for p in analysis["mass"].dims["policy"] if p not in ("oracle", "random")]

    positions, answers = trace.decode["positions"], trace.decode["answers"]
    n = min(a.rows, len(positions))
    rows = [(2 * i + 1) * len(positions) // (2 * n) for i in range(n)]
    heads, kv_heads = trace.model["heads"], trace.model["kv_heads"]
    tokens, seconds = len(trace.tokens), 0.0
    generator = torch.Generator().manual_seed(0)
    for number in trace.layers:
        layer = trace.layer(number)
        start = time.monotonic()
        K, V = (torch.from_numpy(x) for x in (layer.keys, layer.values))
        AK, AV = (torch.from_numpy(x).transpose(0, 1) for x in (layer.decode_keys, layer.decode_values))
        Q = torch.from_numpy(layer.decode_queries[rows]).transpose(0, 1)
        later = torch.from_numpy((answers[None] != answers[rows][:, None]) | (positions[None] > positions[rows][:, None]))
        for h in range(heads):
            g = h // (heads // kv_heads)
            keys, values = torch.cat([K[g], AK[g]]), torch.cat([V[g], AV[g]])
            s = Q[h] @ keys.T * trace.model["scale"]
            s[:, tokens:].masked_fill_(later, -torch.inf)
            full = torch.softmax(s, 1)
            out = full @ values
            order = torch.randperm(tokens, generator=generator)
            for _ in policies:
                for b in budgets:
                    share = float(b.rstrip("%")) / 100 if b.endswith("%") else float(b) / tokens
                    keep = torch.zeros(tokens + len(positions), dtype=torch.bool)
                    keep[tokens:] = True
                    keep[order[:max(1, int(tokens * share))]] = True
                    masked = torch.softmax(s.masked_fill(~keep, -torch.inf), 1)
                    kept = (full * keep).sum(1).mean()
                    lost = ((masked @ values - out).norm(dim=1) / out.norm(dim=1)).mean()
        seconds += time.monotonic() - start
print(f"{len(policies)} policies x {len(budgets)} budgets, {tokens} tokens, {len(trace.layers)} layers, {n} rows, "
      f"{a.threads} threads")
print(f"replay {replay_s:.1f} s ({len(policies) + 2} policies with oracle and random, selection included), "
      f"masks in torch {seconds:.1f} s (evaluation alone): ratio {seconds / replay_s:.1f}")
