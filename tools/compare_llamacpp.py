#!/usr/bin/env python3
"""Longhaul compared with llama.cpp on this machine: the same GGUF files, the same number of tokens, the same threads, in turns in one run. Prints
tables of tokens per second, ratios, and the share of the rate of reads: 1 where a step takes as long as reading its weights and cache.

  pip install --no-binary llama-cpp-python llama-cpp-python gguf numpy      (builds llama.cpp for this machine)
  tools/compare_llamacpp.py MODEL.gguf… [--dtype auto|bf16] [--context 512,7500] [--sequences 16] [--threads 2]
  tools/compare_llamacpp.py mixture …     with random weights: 8 layers, hidden size 1024, 4 of 32 experts of 512 channels

Both sides compute with the blocks of the file; --dtype bf16 dequantises them for both. Matrices of F16 are always BF16 for both, because
Longhaul computes with F16 ones in f32. llama.cpp runs with flash attention on and off, and the better of the two counts. Medians of --repeat
turns; reads are measured in each turn.
"""
import argparse
import json
import os
import statistics
import tempfile

import gguf
import numpy as np

from llamacpp_peer import BF16, Peer, build, run, same_for_both

STEPS = 48  # decode steps of a measurement


def random_mixture(path):
    """A GGUF of Qwen3-MoE's architecture with random weights: as fast as with others of its sizes."""
    layers, hidden, heads, kv_heads, dim, experts, chosen, ff, vocab = 8, 1024, 16, 4, 64, 32, 4, 512, 32000
    rng = np.random.default_rng(2)
    w = gguf.GGUFWriter(path, "qwen3moe")
    w.add_block_count(layers)
    w.add_context_length(32768)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(ff)
    w.add_expert_feed_forward_length(ff)
    w.add_expert_count(experts)
    w.add_expert_used_count(chosen)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_key_length(dim)
    w.add_value_length(dim)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(1e6)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("default")
    w.add_token_list(["t", "1", *(f"t{i}" for i in range(vocab - 2))])
    w.add_token_types([1] * vocab)
    w.add_token_merges(["t 1"])
    w.add_eos_token_id(2)

    def matrix(name, *shape):
        values = rng.standard_normal(shape, np.float32) * shape[-1] ** -0.5
        w.add_tensor(f"{name}.weight", gguf.quants.quantize(values, BF16), raw_dtype=BF16)

    def norm(name, n):
        w.add_tensor(f"{name}.weight", np.ones(n, np.float32))

    matrix("token_embd", vocab, hidden)
    matrix("output", vocab, hidden)
    norm("output_norm", hidden)
    for layer in range(layers):
        b = f"blk.{layer}."
        for name, n in ("attn_norm", hidden), ("ffn_norm", hidden), ("attn_q_norm", dim), ("attn_k_norm", dim):
            norm(b + name, n)
        for name, rows in ("attn_q", heads * dim), ("attn_k", kv_heads * dim), ("attn_v", kv_heads * dim), ("ffn_gate_inp", experts):
            matrix(b + name, rows, hidden)
        matrix(b + "attn_output", hidden, heads * dim)
        matrix(b + "ffn_gate_exps", experts, ff, hidden)
        matrix(b + "ffn_up_exps", experts, ff, hidden)
        matrix(b + "ffn_down_exps", experts, hidden, ff)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Longhaul:
    """Rates by 'bench run', which draws its tokens."""

    def __init__(self, program, checkpoint, threads):
        self.program, self.checkpoint, self.threads = program, checkpoint, threads

    def measure(self, context, sequences=1, budget=None, ranks=1):
        """{shape: (tokens per second, share of reads)} of the prompt and of the steps after it."""
        launcher = ["mpirun", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
        kept = ["--policy", "snapkv", "--budget", str(budget)] if budget else []
        out = json.loads(run(*launcher, self.program, "bench", "run", "-m", self.checkpoint, "-c", str(context), "-n", str(STEPS), "--repeat", "1",
                             "--batch", str(sequences), "--threads", str(max(1, self.threads // ranks)), "--json", *kept))
        rates = {}
        for row in out["rows"]:
            tokens = context if row["name"] == "prefill" else sequences
            rates[row["name"], row["shape"].startswith("snapkv")] = tokens / row["median_s"], row["share"]
        return rates


class Table:
    def __init__(self):
        print("| | llama.cpp | Longhaul | ratio | of the reads |\n|---|---:|---:|---:|---:|")

    def line(self, what, theirs, ours, reads=None):
        """theirs, ours: rates of the turns; reads: shares."""
        theirs, ours = statistics.median(theirs), statistics.median(ours)
        print(f"| {what} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.2f} | {f'{statistics.median(reads):.2f}' if reads else ''} |", flush=True)


def turns(a, path, checkpoint, context, sequences, budget=None):
    """Rates of both sides, in turns, after one that warms up: of llama.cpp (prefill, decode), of Longhaul as measure() gives them."""
    mine = Longhaul(a.longhaul, checkpoint, a.threads)
    peers = [Peer(path, a.threads, context + STEPS + 8, sequences, flash) for flash in (True, False)]
    ids = [int(x) for x in np.random.default_rng(1).integers(1000, peers[0].vocab, context)]
    theirs, ours = [], []
    for _ in range(a.repeat + 1):
        pairs = [(q.prefill(ids), q.decode(ids, sequences, STEPS)) for q in peers]
        theirs.append([max(rates) for rates in zip(*pairs)])
        ours.append(mine.measure(context, sequences, budget))
    for q in peers:
        q.close()
    return *zip(*theirs[1:]), ours[1:]


def compare(a, path, checkpoint, contexts):
    table = Table()
    for context in contexts:
        budget = a.budget if context > a.budget else None
        prefill, decode, ours = turns(a, path, checkpoint, context, 1, budget)
        table.line(f"prefill {context}", prefill, [o["prefill", False][0] for o in ours])
        table.line(f"decode at {context}", decode, *zip(*(o["decode step", False] for o in ours)))
        if budget:
            table.line(f"decode at {context}, {budget} kept", decode, *zip(*(o["decode step", True] for o in ours)))
    _, decode, ours = turns(a, path, checkpoint, contexts[0], a.sequences)
    table.line(f"decode at {contexts[0]}, {a.sequences} sequences", decode, *zip(*(o["decode step", False] for o in ours)))


def compare_ranks(a, checkpoint, context):
    """Two ranks of half of the threads and one rank, in turns."""
    mine = Longhaul(a.longhaul, checkpoint, a.threads)
    pairs = [(mine.measure(context), mine.measure(context, ranks=2)) for _ in range(a.repeat)]
    for name in "prefill", "decode step":
        ratio = statistics.median(two[name, False][0] / one[name, False][0] for one, two in pairs)
        print(f"2 ranks, {name}: {ratio:.2f} of 1 rank")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gguf", nargs="+")
    p.add_argument("--dtype", choices=["auto", "bf16"], default="auto")
    p.add_argument("--longhaul", default="build/longhaul")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--context", default="512,7500", help="tokens of the prompts; the sequences of a batch have the first of these lengths")
    p.add_argument("--budget", type=int, default=512, help="entries per head in the rows 'kept'")
    p.add_argument("--sequences", type=int, default=16)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--ranks", action="store_true", help="also compare two ranks with one")
    a = p.parse_args()
    contexts = [int(x) for x in a.context.split(",")]
    print(f"{build()}; {a.threads} threads; tokens/s")
    with tempfile.TemporaryDirectory() as work:
        for name in a.gguf:
            path, checkpoint = name, os.path.join(work, "model.h5")
            if name == "mixture":
                path = os.path.join(work, "mixture.gguf")
                random_mixture(path)
            path, converted = same_for_both(path, a.dtype, work)
            run(a.longhaul, "import", path, "-o", checkpoint, "--force", "-q")
            print(f"\n{os.path.basename(name)}, {os.path.getsize(path) / 2**20:.1f} MiB{converted}\n")
            compare(a, path, checkpoint, contexts)
            if a.ranks:
                compare_ranks(a, checkpoint, contexts[0])


if __name__ == "__main__":
    main()
