#!/usr/bin/env python3
"""Requests compared with llama.cpp on this machine: the same weights (a GGUF), the same prompts as token ids, the same threads, one after the other
in one run: the whole time, without loading. 'compare_llamacpp.py' compares the steps of a batch.

  pip install --no-binary llama-cpp-python llama-cpp-python gguf numpy      (builds llama.cpp for this machine)
  tools/make_requests.py drawn --count 64 | tools/compare_batches.py MODEL.gguf [--dtype auto|bf16] [--budget 20%] [--slots 16]

llama.cpp runs as its server does: slots that decode together, a token each a call, and prompts that fill the call up to 512 tokens; greedily,
with flash attention and an own loop around llama_decode. --share: a prompt with the context_id of an earlier one takes over what both begin
with (llama_memory_seq_cp), as far as that is still in a slot, and does not start before that one's prompt is read.
"""
import argparse
import json
import os
import sys
import tempfile
import time

import llama_cpp as lib

from llamacpp_peer import CALL, Peer, build, run, same_for_both


class Server(Peer):
    def answer(self, requests, slots, share):
        """Seconds for all requests."""
        lib.llama_memory_clear(self.memory, True)
        waiting, free, work, left = list(requests), list(range(slots)), {}, {}
        start = time.perf_counter()
        while waiting or work:
            while free and (r := self.next_of(waiting, work, share)):
                s = free.pop(0)
                waiting.remove(r)
                lib.llama_memory_seq_rm(self.memory, s, -1, -1)
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
                lib.llama_memory_seq_cp(self.memory, o, s, -1, -1)
                lib.llama_memory_seq_rm(self.memory, s, same, -1)
                return same
        return 0


def compare(a, model, checkpoint, work):
    lines = (sys.stdin if a.requests == "-" else open(a.requests, encoding="utf-8")).read().splitlines()
    path, output = os.path.join(work, "in.jsonl"), os.path.join(work, "out.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    requests = [{"ids": r["body"]["prompt"], "new": r["body"]["max_tokens"], "context": r.get("context_id")} for r in map(json.loads, lines)]
    longest = max(len(r["ids"]) + r["new"] for r in requests)
    server = Server(model, a.threads, longest + 8, a.slots)
    # the longest first, as Longhaul does; those of a context one after another
    order = requests if a.share else sorted(requests, key=lambda r: -len(r["ids"]))
    theirs = server.answer(order, a.slots, a.share)
    print(f"| {len(requests)} requests, {sum(len(r['ids']) for r in requests)} tokens of prompts, {sum(r['new'] for r in requests)} of answers | s | ratio |")
    print(f"|---|---:|---:|\n| llama.cpp, {a.slots} slots{', prefixes shared' if a.share else ''} | {theirs:.1f} | |")
    for what, more in [("", [])] + ([(f", {a.budget} kept", ["--budget", a.budget])] if a.budget else []):
        run(a.longhaul, "batch", "-m", checkpoint, "-i", path, "-o", output, "--batch", str(a.slots), "--threads",
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
    p.add_argument("requests", nargs="?", default="-", help="JSON Lines (default: stdin)")
    p.add_argument("--longhaul", default="build/longhaul")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--dtype", choices=["auto", "bf16"], default="auto", help="bf16: weights are dequantised for both")
    p.add_argument("--slots", type=int, default=16, help="sequences at work together")
    p.add_argument("--budget", help="another run of Longhaul that keeps so much")
    p.add_argument("--share", action="store_true", help="llama.cpp, too, shares what prompts of a context begin with")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        checkpoint = os.path.join(work, "model.h5")
        model, converted = same_for_both(a.gguf, a.dtype, work)
        run(a.longhaul, "import", model, "-o", checkpoint, "-q")
        print(f"{build()}{converted}")
        compare(a, model, checkpoint, work)


if __name__ == "__main__":
    main()
