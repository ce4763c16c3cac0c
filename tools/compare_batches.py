#!/usr/bin/env python3
"""Batches compared with llama.cpp on this machine: the same weights (a GGUF, dequantised to bf16 for both), the same prompts as token ids, the
same threads, one after the other in one run. Prints tables of times and ratios.

  pip install --no-binary llama-cpp-python llama-cpp-python gguf numpy      (builds llama.cpp for this machine)
  tools/compare_batches.py MODEL.gguf steps [--kept 512] [--sequences 16]
  tools/make_requests.py drawn --count 64 | tools/compare_batches.py MODEL.gguf requests - [--budget 20%] [--slots 16]

steps      decode steps of one and of several sequences with as many entries each: the case of llama-batched-bench
requests   all requests of a file as 'batch' takes them, prompts as token ids: the whole time, without loading

llama.cpp runs as its server does: slots that decode together, a token each a call, and prompts that fill the call up to 512 tokens; greedily,
with flash attention and an own loop around llama_decode. --share: a prompt with the context_id of an earlier one takes over what both begin
with (llama_memory_seq_cp), as far as that is still in a slot, and does not start before that one's prompt is read.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from compare_llamacpp import to_bf16

CALL = 512  # tokens of a call of llama_decode at most
NEW = 48    # steps of a measurement


class Peer:
    """llama.cpp's library: one context with several sequences."""

    def __init__(self, path, threads, tokens, sequences):
        import llama_cpp as lib
        self.lib = lib
        lib.llama_backend_init()
        silent = lib.llama_log_callback(lambda *_: None)
        lib.llama_log_set(silent, ctypes.c_void_p(0))
        self.silent = silent
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        p = lib.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = tokens, CALL, CALL, sequences
        p.n_threads = p.n_threads_batch = threads
        p.flash_attn_type, p.kv_unified = 1, False  # with one buffer of all sequences each row reads the entries of all
        self.context = lib.llama_init_from_model(self.model, p)
        self.memory = lib.llama_get_memory(self.context)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(CALL, 0, 1)

    def call(self, items):
        """items: (token, position, sequence, wants logits), evaluated together."""
        b = self.batch
        b.n_tokens = len(items)
        for i, (token, position, sequence, wanted) in enumerate(items):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = sequence
        if self.lib.llama_decode(self.context, b) != 0:
            sys.exit("llama_decode failed: too few cells in its cache?")

    def best(self, item):
        row = self.lib.llama_get_logits_ith(self.context, item)
        return int(np.ctypeslib.as_array(row, (self.vocab,)).argmax())

    def steps(self, prompt, sequences):
        """Tokens per second of steps that follow the prompt in every sequence."""
        self.lib.llama_memory_clear(self.memory, True)
        for s in range(sequences):
            self.call([(t, i, s, False) for i, t in enumerate(prompt)])
        start = time.perf_counter()
        for n in range(NEW):
            self.call([(prompt[n], len(prompt) + n, s, True) for s in range(sequences)])
        return sequences * NEW / (time.perf_counter() - start)

    def answer(self, requests, slots, share):
        """Seconds for all requests."""
        self.lib.llama_memory_clear(self.memory, True)
        waiting, free, work, left = list(requests), list(range(slots)), {}, {}
        start = time.perf_counter()
        while waiting or work:
            while free and (r := self.next_of(waiting, work, share)):
                s = free.pop(0)
                waiting.remove(r)
                self.lib.llama_memory_seq_rm(self.memory, s, -1, -1)
                left.pop(s, None)
                work[s] = {"r": r, "at": self.take_over(r, s, work, left) if share else 0, "new": []}
            items = [(w["new"][-1], w["at"], s, True) for s, w in work.items() if w["new"]]
            for s, w in work.items():
                ids = w["r"]["ids"]
                while w["at"] < len(ids) and len(items) < CALL and not w["new"]:
                    items.append((ids[w["at"]], w["at"], s, w["at"] == len(ids) - 1))
                    w["at"] += 1
            self.call(items)
            for i, (_, _, s, wanted) in enumerate(items):
                if wanted:
                    w = work[s]
                    w["at"] += 1 if w["new"] else 0
                    w["new"].append(self.best(i))
                    if len(w["new"]) == w["r"]["new"]:
                        left[s] = work.pop(s)
                        free.append(s)
        return time.perf_counter() - start

    @staticmethod
    def next_of(waiting, work, share):
        """The first request that waits for no other one's prompt."""
        reading = {w["r"]["context"] for w in work.values() if not w["new"]} - {None} if share else set()
        return next((r for r in waiting if r["context"] not in reading), None)

    def take_over(self, r, s, work, left):
        """Tokens that the slot has from another one with the same context."""
        for o, w in [*work.items(), *left.items()]:
            if o != s and r["context"] is not None and w["r"]["context"] == r["context"]:
                same = 0
                while same < min(w["at"], len(r["ids"]) - 1) and w["r"]["ids"][same] == r["ids"][same]:
                    same += 1
                self.lib.llama_memory_seq_cp(self.memory, o, s, -1, -1)
                self.lib.llama_memory_seq_rm(self.memory, s, same, -1)
                return same
        return 0


def run(*cmd):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               OMPI_MCA_hwloc_base_binding_policy="none")
    done = subprocess.run(cmd, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(cmd)}: {done.stderr}")
    return done.stdout


def compare_steps(a, model, checkpoint):
    peer = Peer(model, a.threads, a.sequences * (a.kept + NEW + 8), a.sequences)
    prompt = [int(t) for t in np.random.default_rng(1).integers(1000, peer.vocab, max(a.kept, NEW))]

    def ours(n):
        out = json.loads(run(a.longhaul, "bench", "run", "-m", checkpoint, "--dtype", "bf16", "--context", str(a.context), "--budget", str(a.kept),
                             "--policy", "snapkv", "-n", str(NEW), "--batch", str(n), "--repeat", "1", "--threads", str(a.threads), "--json"))
        return next(f["value"] for f in out["figures"] if f["name"] == "tokens/s of decode step" and f["shape"].startswith("snapkv"))

    rates = {n: (statistics.median(peer.steps(prompt[:a.kept], n) for _ in range(a.repeat)), statistics.median(ours(n) for _ in range(a.repeat)))
             for n in (1, a.sequences)}
    print(f"| sequences, {a.kept} entries each | llama.cpp | Longhaul | ratio |\n|---|---:|---:|---:|")
    for n, (theirs, mine) in rates.items():
        print(f"| {n} | {theirs:.1f} | {mine:.1f} | {mine / theirs:.2f} |")
    print(f"| {a.sequences} to 1 | {rates[a.sequences][0] / rates[1][0]:.2f} | {rates[a.sequences][1] / rates[1][1]:.2f} | |")


def compare_requests(a, model, checkpoint, work):
    lines = (sys.stdin if a.requests == "-" else open(a.requests, encoding="utf-8")).read().splitlines()
    path, output = os.path.join(work, "in.jsonl"), os.path.join(work, "out.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    requests = [{"ids": r["body"]["prompt"], "new": r["body"]["max_tokens"], "context": r.get("context_id")} for r in map(json.loads, lines)]
    longest = max(len(r["ids"]) + r["new"] for r in requests)
    peer = Peer(model, a.threads, a.slots * (longest + 8), a.slots)
    # the longest first, as Longhaul does; those of a context one after another
    order = requests if a.share else sorted(requests, key=lambda r: -len(r["ids"]))
    theirs = peer.answer(order, a.slots, a.share)
    print(f"| {len(requests)} requests, {sum(len(r['ids']) for r in requests)} tokens of prompts, {sum(r['new'] for r in requests)} of answers | s | ratio |")
    print(f"|---|---:|---:|\n| llama.cpp, {a.slots} slots{', prefixes shared' if a.share else ''} | {theirs:.1f} | |")
    for what, more in [("", [])] + ([(f", {a.budget} kept", ["--budget", a.budget])] if a.budget else []):
        run(a.longhaul, "batch", "-m", checkpoint, "--dtype", "bf16", "-i", path, "-o", output, "--batch", str(a.slots), "--threads",
            str(a.threads), "-q", *more)
        with open(output + ".state", encoding="utf-8") as f:
            state = json.load(f)
        if state["failed"] or state["done"] != len(requests):
            sys.exit(f"{state['failed']} requests failed")
        print(f"| Longhaul, {a.slots} sequences{what} | {state['run_ms'] / 1000:.1f} | {state['run_ms'] / 1000 / theirs:.2f} |")
        if state["context_tokens"]:
            print(f"  ({state['context_tokens']} tokens of prompts came from shared contexts)")
        sys.stdout.flush()
        os.remove(output)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gguf")
    p.add_argument("what", choices=["steps", "requests"])
    p.add_argument("requests", nargs="?", default="-", help="JSON Lines (default: stdin)")
    p.add_argument("--longhaul", default="build/longhaul")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--kept", type=int, default=512, help="steps: entries of every sequence")
    p.add_argument("--context", type=int, default=2000, help="steps: tokens of Longhaul's prompt, of which they are kept")
    p.add_argument("--sequences", type=int, default=16)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--slots", type=int, default=16, help="requests: sequences at work together")
    p.add_argument("--budget", help="requests: another run of Longhaul that keeps so much")
    p.add_argument("--share", action="store_true", help="requests: llama.cpp, too, shares what prompts of a context begin with")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model, checkpoint = os.path.join(work, "model.gguf"), os.path.join(work, "model.h5")
        to_bf16(a.gguf, model)
        run(a.longhaul, "import", model, "-o", checkpoint, "-q")
        if a.what == "steps":
            compare_steps(a, model, checkpoint)
        else:
            compare_requests(a, model, checkpoint, work)


if __name__ == "__main__":
    main()
