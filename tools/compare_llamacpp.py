#!/usr/bin/env python3
"""Longhaul compared with llama.cpp on this machine: the same weights (a GGUF, dequantised to bf16 for both), the same prompts,
the same threads, one after the other in one run. Prints a table of tokens per second and ratios.

  pip install --no-binary llama-cpp-python llama-cpp-python gguf numpy      (builds llama.cpp for this machine)
  tools/compare_llamacpp.py MODEL.gguf [--longhaul build/longhaul] [--threads 2] [--prefill 512,7500] [--decode 128,7500]
  tools/compare_llamacpp.py mixture …     with random weights: 8 layers, hidden size 1024, 4 of 32 experts of 512 channels

llama.cpp runs with flash attention on and off, and the better of the two counts. Medians of --repeat runs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import gguf
import numpy as np

BUDGET = 512  # entries per head in the row "kept"
NEW = 48      # tokens decoded in a measurement


def to_bf16(src, dst):
    """A copy of a GGUF with matrices as BF16 and vectors as F32."""
    reader = gguf.GGUFReader(src)
    arch = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(dst, arch)
    skip = {"general.architecture", "general.file_type", "general.quantization_version"}
    for field in reader.fields.values():
        if field.name in skip or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    bf16, f32 = gguf.GGMLQuantizationType.BF16, gguf.GGMLQuantizationType.F32
    for t in reader.tensors:
        values = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        if values.ndim == 1:
            writer.add_tensor(t.name, values, raw_dtype=f32)
        else:
            writer.add_tensor(t.name, gguf.quants.quantize(values, bf16), raw_dtype=bf16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
        w.add_tensor(f"{name}.weight", (rng.standard_normal(shape, np.float32) * shape[-1] ** -0.5).astype(np.float16))

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


class Peer:
    """llama.cpp through its Python binding; only evaluation is timed."""

    def __init__(self, path, threads, context, flash):
        import llama_cpp
        self.model = llama_cpp.Llama(path, n_ctx=context, n_threads=threads, n_threads_batch=threads, n_batch=512, n_ubatch=512,
                                     flash_attn=flash, verbose=False)

    def prefill(self, ids):
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(ids)
        self.prompt = len(ids)
        return len(ids) / (time.perf_counter() - start)

    def decode(self, ids):
        if getattr(self, "prompt", None) != len(ids):
            self.prefill(ids)
        self.model.n_tokens = len(ids)  # back to the end of the prompt
        start = time.perf_counter()
        for i in range(NEW):
            self.model.eval([ids[i]])
        return NEW / (time.perf_counter() - start)


class Longhaul:
    def __init__(self, a, work):
        self.a, self.work = a, work

    def run(self, *args, ranks=1, threads=None):
        cmd = [self.a.longhaul, "generate", "-m", self.a.checkpoint, "--threads", str(threads or self.a.threads), "--dtype", "bf16", "--json",
               "-q", *args]
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none")
        if ranks > 1:
            cmd = ["mpirun", "-n", str(ranks), *cmd]
        return json.loads(subprocess.run(cmd, capture_output=True, check=True, env=env).stdout)["timing"]

    def ids(self, ids):
        path = os.path.join(self.work, f"{len(ids)}.ids")
        with open(path, "w") as f:
            f.write(" ".join(map(str, ids)))
        return path

    def prefill(self, ids, **how):
        return self.run("--prompt-tokens", self.ids(ids), "--max-new", "1", "--ignore-eos", **how)["prefill_tokens_per_s"]

    def decode(self, ids, policy=(), **how):
        cache = os.path.join(self.work, f"{len(ids)}-{'-'.join(policy) or 'full'}.cache.h5")
        if not os.path.exists(cache):
            self.run("--prompt-tokens", self.ids(ids), "--max-new", "1", "--ignore-eos", "--save-cache", cache, *policy)
        return self.run("--load-cache", cache, "--max-new", str(NEW), "--ignore-eos", **how)["decode_tokens_per_s"]


def median(f, repeat):
    return statistics.median(f() for _ in range(repeat))


def times(n, repeat):
    """Number of repeats: long prompts take minutes and run once."""
    return repeat if n < 4000 else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gguf")
    p.add_argument("--longhaul", default="build/longhaul")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--prefill", default="512,7500")
    p.add_argument("--decode", default="128,7500")
    p.add_argument("--repeat", type=int, default=3)
    a = p.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "model-bf16.gguf")
        if a.gguf == "mixture":
            a.gguf = os.path.join(work, "mixture.gguf")
            random_mixture(a.gguf)
        vocab = len(gguf.GGUFReader(a.gguf).get_field("tokenizer.ggml.tokens").data)
        to_bf16(a.gguf, path)
        a.checkpoint = os.path.join(work, "model.h5")
        subprocess.run([a.longhaul, "import", path, "-o", a.checkpoint, "-q"], check=True)
        prefill, decode = ([int(x) for x in s.split(",")] for s in (a.prefill, a.decode))
        prompt = [int(x) for x in rng.integers(1000, vocab, max(prefill + decode))]
        mine = Longhaul(a, work)
        peers = [Peer(path, a.threads, max(prefill + decode) + NEW + 8, flash) for flash in (True, False)]
        print(f"{'what':28} {'llama.cpp':>10} {'longhaul':>10} {'ratio':>6}   tokens/s, {a.threads} threads")

        def line(what, theirs, ours):
            print(f"{what:28} {theirs:10.1f} {ours:10.1f} {ours / theirs:6.2f}")
            sys.stdout.flush()

        for n in prefill:
            line(f"prefill {n}", max(median(lambda: q.prefill(prompt[:n]), times(n, a.repeat)) for q in peers),
                 median(lambda: mine.prefill(prompt[:n]), times(n, a.repeat)))
        for n in decode:
            theirs = max(median(lambda: q.decode(prompt[:n]), a.repeat) for q in peers)
            line(f"decode at {n}", theirs, median(lambda: mine.decode(prompt[:n]), a.repeat))
            if n > BUDGET:
                line(f"decode at {n}, {BUDGET} kept", theirs,
                     median(lambda: mine.decode(prompt[:n], ("--policy", "ada-snapkv", "--budget", str(BUDGET))), a.repeat))
        for n in prefill[:1]:
            line(f"prefill {n}: 2 ranks / 1 rank", median(lambda: mine.prefill(prompt[:n]), a.repeat),
                 median(lambda: mine.prefill(prompt[:n], ranks=2, threads=max(1, a.threads // 2)), a.repeat))
        line(f"decode at {decode[0]}: 2 ranks / 1", median(lambda: mine.decode(prompt[:decode[0]]), a.repeat),
             median(lambda: mine.decode(prompt[:decode[0]], ranks=2, threads=max(1, a.threads // 2)), a.repeat))


if __name__ == "__main__":
    main()
