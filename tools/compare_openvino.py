#!/usr/bin/env python3
"""Longhaul compared with OpenVINO GenAI's cache eviction: the same prompts (token ids), weights and threads, on CPU, in f32.

  pip install openvino-genai==2026.4.1 optimum-intel h5py
  tools/compare_openvino.py FOLDER -o out/ --haystack essays/ [--longhaul build/longhaul] [--budgets 96,160,320]

FOLDER is a Hugging Face folder in f32 (tools/compare_kvpress.py leaves one in its output, `model`). Needles with the question in
the prompt: OpenVINO GenAI evicts while it generates, and has no way to ask a cache later. A budget is its max_cache_size in
tokens, a multiple of its blocks of 32, of which 32 at the beginning and 32 at the end are protected; Longhaul's is entries per
head. OpenVINO GenAI reports log-probabilities only of tokens that it chose itself, so no likelihood of the right answer.

Times are the least over the prompts; memory is the peak of a process that answers one prompt, with weights. Results are appended to
out/openvino.jsonl; the same command goes on with what is missing.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import openvino
import openvino_genai

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer_prompts import add_options, contains, evaluate, mean, needle_depth, numbers, prompts, words  # noqa: E402

BLOCK = 32
MODES = ["SUM", "NORM_SUM"]  # ADAPTIVE_RKV ends with "Diversity score size mismatch" in 2026.4.1
POLICIES = ["longhaul", "snapkv", "snapkv --set-per layer", "h2o"]


def peak_mib():
    with open("/proc/self/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) / 1024


class Pipeline:
    """One mode and budget; mode None: the full cache."""

    def __init__(self, a, mode, budget):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = 1
        scheduler.enable_prefix_caching = False
        scheduler.dynamic_split_fuse = False  # the whole prompt at once
        scheduler.max_num_batched_tokens = 8192
        if mode:
            scheduler.use_cache_eviction = True
            scheduler.cache_eviction_config = openvino_genai.CacheEvictionConfig(
                BLOCK, BLOCK, budget, getattr(openvino_genai.AggregationMode, mode))
        properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": a.threads}
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(a.exported, scheduler_config=scheduler, device="CPU", properties=properties)
        self.config = openvino_genai.GenerationConfig()
        self.config.max_new_tokens = a.max_new
        with open(os.path.join(a.exported, "config.json")) as f:
            self.config.set_eos_token_id(json.load(f)["eos_token_id"])

    def answer(self, ids):
        """Token ids, seconds of the prompt and of a later token, and the bytes of cache in use at the end."""
        request = self.pipeline.add_request(0, openvino.Tensor(np.array([ids], np.int64)), self.config)
        times, in_use = [time.perf_counter()], 0
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            times.append(time.perf_counter())
            metrics = self.pipeline.get_metrics()
            in_use = metrics.cache_usage / 100 * metrics.kv_cache_size_in_bytes or in_use
        return list(request.read_all()[0].generated_ids), times[1] - times[0], mean(np.diff(times[4:]).tolist()), in_use


def run(a, mode, budget, asked, out):
    """Answers the prompts that `out` lacks; in a process of its own, whose peak of memory then counts."""
    done = {r["prompt"] for r in read(out) if (r["mode"], r["budget"]) == (mode, budget)}
    todo = {name: prompt for name, prompt in asked.items() if name not in done}
    if not todo:
        return
    pipeline = Pipeline(a, mode, budget)
    for name, (ids, _) in todo.items():
        answer, prompt_s, token_s, in_use = pipeline.answer(ids)
        r = {"mode": mode, "budget": budget, "prompt": name, "tokens": len(ids), "answer": answer, "prompt_s": prompt_s,
             "token_s": token_s, "kv_bytes": in_use, "peak_mib": peak_mib()}
        with open(out, "a") as f:
            f.write(json.dumps(r) + "\n")


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f]


def generate(a, ids, policy, budget):
    """Times and peak of memory of Longhaul's own run of a prompt."""
    path = os.path.join(a.output, "prompt.ids")
    with open(path, "w") as f:
        f.write(" ".join(map(str, ids)))
    command = [a.longhaul, "generate", "-m", a.checkpoint, "--prompt-tokens", path, "--max-new", str(a.max_new), "--ignore-eos",
               "--kv-dtype", "f32", "--threads", str(a.threads), "--json", "-q"] + (["--policy", *policy.split(), "--budget", str(budget)] if budget else [])
    with open(os.path.join(a.output, "generate.json"), "w+") as f:
        process = subprocess.Popen(command, stdout=f)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, command
        f.seek(0)
        return json.load(f), usage.ru_maxrss / 1024


def judge(a, rows, asked):
    """Adds the measures of the answers, read by Longhaul's tokenizer."""
    lines = "".join(json.dumps(r["answer"]) + "\n" for r in rows)
    texts = subprocess.run([a.longhaul, "tokenize", "-m", a.checkpoint, "--decode", "--jsonl", "-q"], input=lines, capture_output=True,
                           text=True, check=True).stdout.splitlines()
    for r, text in zip(rows, map(json.loads, texts)):
        secret = asked[r["prompt"]][1]
        r |= {"exact": contains(text, secret), "words": mean([w in words(text) for w in words(secret)])}
    return rows


def report(a, asked, needle, out):
    print("| method | kept | exact | words | prompt, s | a token, ms | cache, MiB | peak, MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|")

    def line(method, kept, rows, prompt_s, token_s, peak):
        print(f"| {method} | {kept or 'all'} | {sum(int(r['exact']) for r in rows)}/{len(rows)} | {mean([float(r['words']) for r in rows]):.2f} "
              f"| {prompt_s:.2f} | {token_s * 1e3:.1f} | {mean([float(r['kv_bytes']) for r in rows]) / 2**20:.1f} | {peak:.0f} |")

    theirs = judge(a, read(out), asked)
    for mode, budget in dict.fromkeys((r["mode"], r["budget"]) for r in theirs):
        rows = [r for r in theirs if (r["mode"], r["budget"]) == (mode, budget)]
        line(f"OpenVINO GenAI, {mode or 'full'}", budget, rows, min(r["prompt_s"] for r in rows), min(r["token_s"] for r in rows),
             min(r["peak_mib"] for r in rows))
    for policy, budget in dict.fromkeys((r["policy"], r["budget"]) for r in needle):
        rows = [r for r in needle if (r["policy"], r["budget"]) == (policy, budget)]
        runs = [generate(a, ids, policy, budget) for ids, _ in list(asked.values())[:a.timed]]
        line(f"Longhaul, `{policy}`", budget, rows, min(r["timing"]["prefill_s"] for r, _ in runs),
             1 / max(r["timing"]["decode_tokens_per_s"] for r, _ in runs), max(peak for _, peak in runs))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    add_options(p)
    p.add_argument("--timed", type=int, default=3, help="prompts over which Longhaul's times are the least")
    p.add_argument("--budgets", default="320,160,96", type=numbers, help="tokens, multiples of 32 above 64")
    p.add_argument("--only", help=argparse.SUPPRESS)  # MODE,BUDGET: what a process of its own measures
    a = p.parse_args()
    os.makedirs(a.output, exist_ok=True)
    a.exported, a.checkpoint = os.path.join(a.output, "openvino"), os.path.join(a.output, "model.h5")
    if not os.path.exists(os.path.join(a.exported, "openvino_model.xml")):
        subprocess.run(["optimum-cli", "export", "openvino", "-m", a.folder, "--task", "text-generation-with-past", "--weight-format", "fp32",
                        a.exported], check=True)
    if not os.path.exists(a.checkpoint):
        subprocess.run([a.longhaul, "import", a.folder, "-o", a.checkpoint, "--dtype", "f32", "-q"], check=True)
    needle, asked = [], {}
    for i in range(a.needles):
        rows = evaluate(a.longhaul, a.output, f"seen-{i}", "needle", "--haystack", a.haystack, "--depth", needle_depth(i), "--seed", str(i),
                        "--scenario", "question-aware", "-m", a.checkpoint, "--kv-dtype", "f32", "--threads", str(a.threads), "--max-new", str(a.max_new),
                        "--length", str(a.length), "--budget", ",".join(map(str, a.budgets)), "--policy", ",".join(POLICIES))
        needle += rows
        asked |= {name: (ids, rows[0]["secret"]) for name, ids in prompts(a.output, f"seen-{i}")}
    out = os.path.join(a.output, "openvino.jsonl")
    if a.only:
        mode, budget = json.loads(a.only)
        return run(a, mode, budget, asked, out)
    for mode, budget in [(None, None)] + [(m, b) for b in a.budgets for m in MODES]:
        subprocess.run([sys.executable, *sys.argv, "--only", json.dumps([mode, budget])], check=True)
    report(a, asked, needle, out)


if __name__ == "__main__":
    main()
