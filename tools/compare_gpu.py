#!/usr/bin/env python3
"""Longhaul compared with others on one NVIDIA GPU: the shape of Llama-3.1-8B with random weights in bf16, one after the
other in one run. Prints a table of times, rates and ratios.

  pip install torch transformers gguf numpy
  cmake -S llama.cpp -B llama.cpp/build -DGGML_CUDA=ON && cmake --build llama.cpp/build --target llama-bench llama-batched-bench
  tools/compare_gpu.py [--longhaul build-cuda/longhaul] [--llama llama.cpp/build/bin] [--work /dev/shm] [--only torch]

torch         attention of blocks by cuDNN, calls for half a second each, as `bench operations attend_block` has them
transformers  a prompt of 32,768 tokens, logits of the last one
llama         llama.cpp with flash attention: the prompt, steps after 1,024 and 32,768 tokens, steps of 1, 8 and 16 sequences

cuDNN takes no causal mask that ends at the last entry, so blocks of 4,096 rows of more entries have none there.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, DIM, VOCAB = 32, 4096, 14336, 32, 8, 128, 128256
PROMPT, KEPT = 32768, 1024
BLOCKS = (4096, 8192), (4096, 16384), (4096, 32768), (8192, 8192), (16384, 16384)  # rows, entries


def line(what, theirs, ours, unit, ratio):
    """One row of the table; None: not measured."""
    numbers = ["" if x is None else f"{x:.4g}" for x in (theirs, ours, ratio)]
    print(f"| {what} | {numbers[0]} | {numbers[1]} | {unit} | {numbers[2]} |", flush=True)


def run(command, **how):
    """Standard output of a program; what it said, if it failed."""
    done = subprocess.run(command, capture_output=True, text=True, **how)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


class Longhaul:
    def __init__(self, program):
        self.program = program

    def bench(self, *arguments):
        """Rows of a `longhaul bench`: (name, shape) and their figures."""
        rows = json.loads(run([self.program, "bench", *arguments, "--device", "cuda", "--json"]))["rows"]
        return {(r["name"], r["shape"]): r for r in rows}

    def model(self, *arguments):
        """A prompt and its steps, with the full cache and with KEPT entries of each head."""
        return self.bench("run", "-m", "random:llama-3.1-8b", "--budget", str(KEPT), *arguments)


def figure(rows, name, *words):
    """The figures of the row of this name whose shape has these words."""
    return next((r for (n, shape), r in rows.items() if n == name and all(w in shape for w in words)), None)


def flops(rows, entries):
    """Of a block without a mask; of a square one with the causal mask."""
    return 4 * DIM * HEADS * rows * ((rows + 1) / 2 if rows == entries else entries)


def compare_torch(mine):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attend

    def seconds(call):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        times = []
        while sum(times) < 0.5:
            pairs = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(20)]
            for begin, end in pairs:
                begin.record()
                call()
                end.record()
            torch.cuda.synchronize()
            times += [begin.elapsed_time(end) / 1e3 for begin, end in pairs]
        return statistics.median(times)

    ours = mine.bench("operations", "attend_block")
    for rows, entries in BLOCKS:
        q = torch.randn(1, HEADS, rows, DIM, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(1, KV_HEADS, entries, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(2))

        def call():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                attend(q, k, v, is_causal=rows == entries, enable_gqa=True)

        theirs = flops(rows, entries) / seconds(call) / 1e12
        row = figure(ours, "attend_block", f"bf16 32/8 x 128, {rows} rows of {entries}")
        rate = row and row["tflops_per_s"]
        line(f"attention, {rows:,} rows of {entries:,}: torch, cuDNN", theirs, rate, "TFLOP/s", rate and rate / theirs)
    del q, k, v, call
    torch.cuda.empty_cache()


def compare_transformers(prompt_s):
    import torch
    import transformers
    config = transformers.LlamaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
                                      num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=131072,
                                      rope_theta=500000.0, attn_implementation="sdpa")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        for name in "normal_", "uniform_", "kaiming_uniform_":  # weights are drawn below, once
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
        model = transformers.LlamaForCausalLM(config).eval()
    for p in model.parameters():
        p.data.normal_(0, 0.02) if p.dim() > 1 else p.data.fill_(1.0)
    ids = torch.randint(0, 128000, (1, PROMPT), device="cuda")
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.no_grad():
            model(ids, use_cache=True, logits_to_keep=1)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    del model, ids
    torch.cuda.empty_cache()
    theirs = statistics.median(times[1:])
    line(f"prompt of {PROMPT:,} tokens: transformers", theirs, prompt_s, "s", theirs / prompt_s)


def write_gguf(path):
    """The shape with random weights, as BF16 and F32, without a vocabulary."""
    import gguf
    import numpy as np
    import torch
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(LAYERS)
    w.add_context_length(131072)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(500000.0)
    w.add_rope_dimension_count(DIM)
    w.add_vocab_size(VOCAB)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    w.add_tokenizer_model("none")
    tensors = [("token_embd", (VOCAB, HIDDEN)), ("output_norm", (HIDDEN,)), ("output", (VOCAB, HIDDEN))]
    for layer in range(LAYERS):
        for name, shape in (("attn_norm", (HIDDEN,)), ("attn_q", (HIDDEN, HIDDEN)), ("attn_k", (KV_HEADS * DIM, HIDDEN)),
                            ("attn_v", (KV_HEADS * DIM, HIDDEN)), ("attn_output", (HIDDEN, HIDDEN)), ("ffn_norm", (HIDDEN,)),
                            ("ffn_gate", (INNER, HIDDEN)), ("ffn_up", (INNER, HIDDEN)), ("ffn_down", (HIDDEN, INNER))):
            tensors.append((f"blk.{layer}.{name}", shape))
    for name, shape in tensors:
        is_norm, count = len(shape) == 1, int(np.prod(shape))
        w.add_tensor_info(name + ".weight", shape, np.dtype(np.float32 if is_norm else np.uint16), count * (4 if is_norm else 2),
                          raw_dtype=None if is_norm else gguf.GGMLQuantizationType.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    out, device = w.fout[0], "cuda" if torch.cuda.is_available() else "cpu"
    for name, shape in tensors:  # the writer would keep all of them in memory
        out.write(b"\0" * (-out.tell() % w.data_alignment))
        if len(shape) == 1:
            out.write(np.ones(shape, np.float32).data)
        else:
            out.write((torch.randn(*shape, device=device) * 0.02).to(torch.bfloat16).view(torch.int16).cpu().numpy().data)
    out.write(b"\0" * (-out.tell() % w.data_alignment))
    out.close()
    if device == "cuda":
        torch.cuda.empty_cache()  # llama.cpp is another process


def compare_llama(folder, work, prompt_s, steps):
    """steps: tokens/s of ours by (sequences, entries)."""
    path = os.path.join(work, "compare_gpu.gguf")
    write_gguf(path)
    usual = ["-m", path, "-ngl", "99", "-b", "4096", "-ub", "4096"]
    try:
        bench = [os.path.join(folder, "llama-bench"), *usual, "-fa", "1", "-o", "json"]
        theirs = PROMPT / json.loads(run(bench + ["-p", str(PROMPT), "-n", "0", "-r", "2"]))[0]["avg_ts"]
        line(f"prompt of {PROMPT:,} tokens: llama.cpp", theirs, prompt_s, "s", theirs / prompt_s)
        for row in json.loads(run(bench + ["-p", "0", "-n", "64", "-d", f"{KEPT},{PROMPT}", "-r", "2"])):
            rate = steps.get((1, row["n_depth"]))
            line(f"a step after {row['n_depth']:,} tokens: llama.cpp", row["avg_ts"], rate, "tokens/s", rate and rate / row["avg_ts"])
        text = run([os.path.join(folder, "llama-batched-bench"), *usual, "-fa", "on", "-c", str(20 * KEPT), "-npp", str(KEPT), "-ntg", "64",
                    "-npl", "8,16"])
        for row in re.findall(r"^\|" + r" *([\d.]+) \|" * 10, text, re.MULTILINE):
            sequences, theirs = int(row[2]), float(row[7])
            rate = steps.get((sequences, KEPT))
            line(f"steps of {sequences} sequences of {KEPT:,}: llama.cpp", theirs, rate, "tokens/s", rate and rate / theirs)
    finally:
        os.remove(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--longhaul", default="build-cuda/longhaul")
    p.add_argument("--llama", help="folder of llama.cpp's programs; without it llama.cpp is left out")
    p.add_argument("--work", default="/dev/shm", help="folder for 16 GB (default: %(default)s)")
    p.add_argument("--only", choices=("torch", "transformers", "llama"), help="this comparison alone")
    a = p.parse_args()
    mine, wanted = Longhaul(a.longhaul), {a.only} if a.only else {"torch", "transformers"} | ({"llama"} if a.llama else set())
    print("| what, and the other program | other | Longhaul | unit | ratio |\n|---|---:|---:|---|---:|")
    if "torch" in wanted:
        compare_torch(mine)
    if not wanted & {"transformers", "llama"}:
        return
    rows = mine.model("--context", str(PROMPT), "--max-new", "64", "--warm-up", "4096")
    prompt_s = figure(rows, "prefill", "full")["median_s"]
    if "transformers" in wanted:
        compare_transformers(prompt_s)
    if "llama" in wanted:
        steps = {(1, PROMPT): 1 / figure(rows, "decode step", "full")["median_s"],
                 (1, KEPT): 1 / figure(rows, "decode step", "longhaul")["median_s"]}
        for n in 8, 16:
            batch = mine.model("--context", "2048", "--max-new", "64", "--batch", str(n), "--repeat", "1")
            steps[n, KEPT] = n / figure(batch, "decode step", "longhaul")["median_s"]
        compare_llama(a.llama, a.work, prompt_s, steps)


if __name__ == "__main__":
    main()
