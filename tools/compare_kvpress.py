#!/usr/bin/env python3
"""Longhaul compared with kvpress: the same prompts (token ids), weights (f32) and budgets, on CPU.

  pip install kvpress==0.5.5 gguf h5py
  tools/compare_kvpress.py MODEL -o out/ --haystack essays/ --text books/ [--longhaul build/longhaul] [--press SnapKV,...]
  tools/compare_kvpress.py MODEL -o out/ --records ruler.jsonl --max-new 40

MODEL is a GGUF or a Hugging Face folder with a chat format. `longhaul eval needle` (question seen, and not) and `eval
fidelity` make the prompts and measure policies; their ids then go through presses in torch. --templates asks for facts
of several kinds, which come after the eviction. Needles: exact answers, negative log-likelihood of the secret under
teacher forcing, share of its tokens that are the most likely ones. Texts: KL(full || kept) of the next token along the
full cache's own continuation. --records asks the questions of files of `eval tasks` instead, after the eviction:
RULER's score (string-match-all), likelihood and share of the right answers. Brackets: nats more than the full cache,
with the 95% interval by bootstrap over the prompts. Every result is a line of out/presses.jsonl at once; the same
command goes on with what is missing, then prints the tables and writes out/means.csv.

A press compresses at the end of each layer of a dense prefill, so one prefill serves all presses: each gets the layer's
keys and values, and what it returns is kept apart. KVzip needs passes of its own and runs by itself. AdaKV, CriticalAdaKV
and KVzip free nothing: evicted keys stay in the cache and are masked, as kvpress does it.
"""
import argparse
import csv
import json
import logging
import os
import subprocess
import sys
import time
from collections import defaultdict
from functools import partial

import torch
import transformers
from kvpress import (AdaKVPress, BasePress, CapPress, CompactorPress, CriticalAdaKVPress, CriticalKVPress,
                     ExpectedAttentionPress, KeyDiffPress, KnormPress, KVzipPress, LagKVPress, LeverageScorePress, PyramidKVPress,
                     SnapKVPress, StreamingLLMPress, TOVAPress)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer_prompts import (add_options, contains, evaluate, facts_of, interval, kept_positions, mean,  # noqa: E402
                          needle_depth, needle_name, numbers, prompts, share_contained, task_name)

# Presses with their defaults, and the preset of Longhaul that is the same algorithm.
PRESSES = {
    "SnapKV": (lambda r: SnapKVPress(r), "snapkv@kvpress"),
    "PyramidKV": (lambda r: PyramidKVPress(r), "pyramidkv@kvpress"),
    "AdaKV(SnapKV)": (lambda r: AdaKVPress(SnapKVPress(r)), "adakv@kvpress"),
    "CriticalKV(SnapKV)": (lambda r: CriticalKVPress(SnapKVPress(r)), "critical@kvpress"),
    "CriticalAdaKV(SnapKV)": (lambda r: CriticalAdaKVPress(SnapKVPress(r)), "critical-ada@kvpress"),
    "TOVA": (lambda r: TOVAPress(r), "tova@kvpress"),
    "StreamingLLM": (lambda r: StreamingLLMPress(r), "streaming@kvpress"),
    "Knorm": (lambda r: KnormPress(r), "knorm@kvpress"),
    "KeyDiff": (lambda r: KeyDiffPress(r), "keydiff@kvpress"),
    "LagKV": (lambda r: LagKVPress(r), "lagkv@kvpress"),
    "ExpectedAttention": (lambda r: ExpectedAttentionPress(r), "expected-attention@kvpress"),
    "AdaKV(ExpectedAttention)": (lambda r: AdaKVPress(ExpectedAttentionPress(r, epsilon=1e-2)), None),
    "LeverageScore": (lambda r: LeverageScorePress(r), None),
    "Compactor": (lambda r: CompactorPress(r), None),
    "Cap": (lambda r: CapPress(r), None),
    "KVzip": (None, None),  # by itself
}
AFTER = "--rows-at after --statistic rms --window 16 --pool-size 15 --sinks 4 --head-budget adaptive --alpha 0.2"
KEYS = "keydiff --pool avg --pool-size 15 --sinks 4 --head-budget adaptive --alpha 0.2"
OURS = ["longhaul", "ask-later", "defensive", "layer-defensive", KEYS, f"{KEYS} --rows-at after --rows sample:128 --fit both", f"snapkv {AFTER}",
        f"snapkv {AFTER} --fit both"]
MEASURES = ("exact", "score", "answer_nll", "answer_best", "kl", "best")
SETTINGS = {"question-aware": "question seen", "context-only": "question unseen", "tasks": "tasks, question unseen",
            "text": "text"}


# ---- Longhaul's side ----

def prepare(a):
    """MODEL as a Hugging Face folder and as a checkpoint, both in f32."""
    folder = os.path.join(a.output, "model")
    if not os.path.exists(os.path.join(folder, "config.json")):
        where = dict(pretrained_model_name_or_path=a.model)
        if a.model.endswith(".gguf"):
            where = dict(pretrained_model_name_or_path=os.path.dirname(a.model) or ".", gguf_file=os.path.basename(a.model))
        transformers.AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
        transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).save_pretrained(folder)
    checkpoint = os.path.join(a.output, "model.h5")
    if not os.path.exists(checkpoint):
        subprocess.run([a.longhaul, "import", folder, "-o", checkpoint, "--dtype", "f32", "-q"], check=True)
    return folder, checkpoint


# ---- kvpress's side ----

class Apart(BasePress):
    """Gives every layer to many presses, and keeps apart what each returns; the prefill goes on with the full cache."""

    def __init__(self, presses):
        self.presses = presses
        self.kept, self.seconds = {name: [] for name in presses}, dict.fromkeys(presses, 0.0)

    def post_init_from_model(self, model):
        for press in self.presses.values():
            press.post_init_from_model(model)

    def compress(self, module, hidden_states, keys, values, attentions, kwargs):
        for name, press in self.presses.items():
            module.masked_key_indices = None
            start = time.perf_counter()
            k, v = press.compress(module, hidden_states, keys, values, attentions, kwargs)
            self.seconds[name] += time.perf_counter() - start
            self.kept[name].append((k, v, module.masked_key_indices))
        module.masked_key_indices = None
        return keys, values


class KVzipAtAll(KVzipPress):
    """KVzip at several budgets: its passes over the prompt score the entries once."""

    def compress_post(self, model):
        self.masks = {}
        for budget in self.budgets:
            self.compression_ratio = 1 - budget / 100
            super().compress_post(model)
            self.masks[budget] = [layer.self_attn.masked_key_indices for layer in model.model.layers]


class Kept:
    """What a press left of a prompt: (keys, values, masked indices) of every layer."""

    def __init__(self, layers, tokens, seconds):
        self.layers, self.tokens, self.seconds = layers, tokens, seconds

    def lengths(self):
        return tuple(k.shape[2] for k, _, _ in self.layers)

    def entries(self):
        return sum(k.shape[1] * k.shape[2] - (len(masked[0]) if masked is not None else 0) for k, _, masked in self.layers)

    def bytes(self):
        return sum(x.nbytes for k, v, _ in self.layers for x in (k, v))

    def positions(self, full):
        """[layers][kv heads] positions kept: those whose keys are among the full cache's."""
        out = []
        for (k, _, masked), (all_keys, _, _) in zip(self.layers, full.layers):
            if masked is not None:
                gone = torch.zeros(all_keys.shape[1:3], dtype=torch.bool)
                gone[masked[1], masked[2]] = True
                out.append([torch.nonzero(~g).flatten().tolist() for g in gone])
            else:
                where = [{row.tobytes(): p for p, row in enumerate(head.numpy())} for head in all_keys[0]]
                out.append([[where[h][row.tobytes()] for row in head.numpy()] for h, head in enumerate(k[0])])
        return out


class Batch:
    """Caches of the same lengths of one prompt, continued together."""

    def __init__(self, model, caches):
        self.model, self.n, self.cache = model, len(caches), transformers.DynamicCache()
        for i, layer in enumerate(model.model.layers):
            self.cache.update(*(torch.cat([c.layers[i][part] for c in caches]) for part in (0, 1)), i)
            masks = [(m[0] + b, m[1], m[2]) for b, m in enumerate(c.layers[i][2] for c in caches) if m is not None]
            layer.self_attn.masked_key_indices = tuple(map(torch.cat, zip(*masks))) if masks else None

    def feed(self, ids, at):
        """Logits [caches, tokens, vocabulary] after ids [caches][tokens], which follow position at. Where layers have lengths
        of their own (PyramidKV), one mask cannot serve all of them, and tokens go in one by one."""
        step = len(ids[0]) if len({layer.keys.shape[2] for layer in self.cache.layers}) == 1 else 1
        parts = [torch.tensor([row[i:i + step] for row in ids]) for i in range(0, len(ids[0]), step)]
        rows = []
        for part in parts:
            positions = torch.arange(at, at + part.shape[1])[None].expand(self.n, -1)
            rows.append(self.model(input_ids=part, past_key_values=self.cache, position_ids=positions).logits)
            at += part.shape[1]
        return torch.cat(rows, 1)

    def forget(self, tokens):
        """Drops the last tokens fed."""
        for layer in self.cache.layers:
            layer.keys, layer.values = (x[:, :, :x.shape[2] - tokens] for x in (layer.keys, layer.values))

    def greedy(self, first, at, most, ends):
        """Token ids of the answers, without the one that ends them. first: logits [caches, vocabulary]."""
        ids = [[int(x)] for x in first.argmax(-1)]
        while len(ids[0]) < most and not all(ends & set(row) for row in ids):
            best = self.feed([row[-1:] for row in ids], at)[:, -1].argmax(-1)
            ids = [row + [int(x)] for row, x in zip(ids, best)]
            at += 1
        return [row[:min([row.index(e) for e in ends & set(row)], default=len(row))] for row in ids]


def press_prompt(model, ids, presses):
    """The full cache, every press's, and the logits after the prompt. presses: (name, percent kept)."""
    apart = Apart({(name, b): PRESSES[name][0](1 - b / 100) for name, b in presses if name != "KVzip"})
    torch.manual_seed(0)  # of random sketches
    cache, start = transformers.DynamicCache(), time.perf_counter()
    with apart(model):
        hidden = model.model(input_ids=torch.tensor([ids]), past_key_values=cache).last_hidden_state
    prefill = time.perf_counter() - start - sum(apart.seconds.values())
    kept = {("full", 100): Kept([(layer.keys, layer.values, None) for layer in cache.layers], len(ids), prefill)}
    kept |= {at: Kept(layers, len(ids), apart.seconds[at]) for at, layers in apart.kept.items()}
    budgets = [b for name, b in presses if name == "KVzip"]
    if budgets:
        press = KVzipAtAll(compression_ratio=0.5)
        press.budgets = budgets
        cache, start = transformers.DynamicCache(), time.perf_counter()
        with press(model):
            model.model(input_ids=torch.tensor([ids]), past_key_values=cache)
        seconds = time.perf_counter() - start - prefill
        kept |= {("KVzip", b): Kept([(c.keys, c.values, m) for c, m in zip(cache.layers, press.masks[b])], len(ids), seconds)
                 for b in budgets}
    return kept, model.lm_head(hidden[0, -1:])


def ask(batch, after_prompt, tokens, question, secret, judge, a):
    """Measures of the caches' answers, and of the right one, `secret`. question: ids that follow the eviction, [] where
    the prompt has them. judge: measures of the text of an answer."""
    at = tokens + len(question)
    first = batch.feed([question] * batch.n, tokens)[:, -1:] if question else after_prompt[None].expand(batch.n, -1, -1)
    right = a.tokenizer.encode(secret, add_special_tokens=False)
    rows = torch.cat([first, batch.feed([right[:-1]] * batch.n, at)], 1).log_softmax(-1)
    batch.forget(len(right) - 1)
    nll = -rows[:, range(len(right)), right].mean(-1)
    best = (rows.argmax(-1) == torch.tensor(right)).float().mean(-1)
    answers = a.tokenizer.batch_decode(batch.greedy(first[:, -1], at, a.max_new, a.ends))
    return [judge(answer) | {"answer_nll": float(n), "answer_best": float(b), "answer": answer}
            for answer, n, b in zip(answers, nll, best)]


def follow(batch, tokens, reference, ids):
    """KL(full || kept) of the tokens after ids[0], and the share of equal best tokens. reference: the full cache's rows."""
    rows = batch.feed([ids[:-1]] * batch.n, tokens).log_softmax(-1)
    kl = (reference.exp() * (reference - rows)).sum(-1).mean(-1)
    best = (rows.argmax(-1) == reference.argmax(-1)).float().mean(-1)
    return [{"kl": float(k), "best": float(b)} for k, b in zip(kl, best)]


def overlap(theirs, ours):
    """Mean share of a layer's entries that both keep."""
    shares = []
    for a, b in zip(theirs, ours):
        both = sum(len(set(x) & set(y.tolist())) for x, y in zip(a, b))
        shares.append(both / max(sum(map(len, a)), sum(map(len, b))))
    return sum(shares) / len(shares)


def press_all(a, model, out, folder, presses, asked=None):
    """Measures what `out` lacks of every prompt of a run. asked: {prompt: (question ids, right answer, judge)}, or None
    of texts."""
    done = {(r["run"], r["prompt"], r["press"], r["budget"]) for r in read(out)}
    for name, ids in prompts(a.output, folder):
        todo = [at for at in [("full", 100)] + [(press, b) for b in a.budgets for press in presses] if (folder, name, *at) not in done]
        if not todo:
            continue
        kept, after_prompt = press_prompt(model, ids, [at for at in todo if at[0] != "full"])
        full = kept["full", 100]
        if not asked:
            told = Batch(model, [full]).greedy(after_prompt, len(ids), a.max_new, a.ends)[0]
            reference = Batch(model, [full]).feed([told[:-1]], len(ids)).log_softmax(-1)
        together = defaultdict(list)
        for at in todo:
            together[kept[at].lengths()].append(at)
        for members in together.values():
            batch = Batch(model, [kept[at] for at in members])
            measures = ask(batch, after_prompt, len(ids), *asked[name], a) if asked else follow(batch, len(ids), reference, told)
            for (press, budget), measured in zip(members, measures):
                k = kept.pop((press, budget))
                r = {"run": folder, "prompt": name, "press": press, "budget": budget, "tokens": len(ids), "entries": k.entries(),
                     "kv_bytes": k.bytes(), "seconds": k.seconds} | measured
                preset = PRESSES.get(press, (None, None))[1]
                ours = kept_positions(a.output, folder, name, preset, f"{budget}%") if preset else None
                if ours:
                    r["overlap"] = overlap(k.positions(full), ours)
                with open(out, "a") as f:
                    f.write(json.dumps(r) + "\n")
        print(f"{folder} {name}: {len(todo)} caches", file=sys.stderr, flush=True)


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f]


# ---- questions: {prompt: (ids that follow the eviction, right answer, judge)} of a run ----

def judge_needle(secret, answer):
    return {"exact": contains(answer, secret)}


def judge_task(right, answer):
    return {"score": share_contained(answer, right)}


def question_of(kinds, row, prompt):
    """The question of a row of `eval needle`: of a kind, with the words of the fact in the prompt that has its answer."""
    if not kinds:
        return f"What is the secret passphrase for the {row['name']}?"
    kind = kinds[row["task"]]
    return next(kind["question"].format(**f) for f in facts_of(kind, prompt) if kind["answer"].format(**f) == row["secret"])


def needle_prompt(kinds, row):
    return needle_name(row) + (f"-{row['task']}" if kinds else "")


def needle_questions(a, run, rows, chat):
    """chat: what the chat format writes after the user's turn."""
    asked, texts = {}, {name: a.tokenizer.decode(ids) for name, ids in prompts(a.output, run)}
    for r in rows:
        name = needle_prompt(a.kinds, r)
        question = question_of(a.kinds, r, texts[name]) + chat
        ids = a.tokenizer.encode(question, add_special_tokens=False) if r["scenario"] == "context-only" else []
        asked[name] = (ids, r["secret"], partial(judge_needle, r["secret"]))
    return asked


def task_questions(a, run, whole, rows):
    """The question is what the prompts of `whole` have more than those of `run`."""
    asked, contexts, wholes = {}, dict(prompts(a.output, run)), dict(prompts(a.output, whole))
    for r in rows:
        name = task_name(r)
        context, ids = contexts[name], wholes[task_name(r | {"scenario": "question-aware"})]
        if ids[:len(context)] != context:
            sys.exit(f"{name}: a token spans the end of the context and the beginning of the question")
        blank = "" if a.tokenizer.decode(ids)[-1:].isspace() else " "
        asked[name] = (ids[len(context):], blank + r["expected"], partial(judge_task, r["expected"].split(", ")))
    return asked


# ---- tables ----

def table(title, columns, lines):
    print(f"\n{title}\n\n| method | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    for method, cells in lines.items():
        print(f"| {method} | " + " | ".join(cells) + " |")


def measures_of(rows):
    """Exact answers or mean score, nats of the right answer and share of its tokens; of texts KL and equal tokens."""
    if "kl" in rows[0]:
        return f"{mean([r['kl'] for r in rows]):.3f} {mean([r['best'] for r in rows]):.2f}"
    found = f"{mean([r['score'] for r in rows]):.0f}" if "score" in rows[0] else str(sum(int(r["exact"]) for r in rows))
    return f"{found} {mean([r['answer_nll'] for r in rows]):.2f} {mean([r['answer_best'] for r in rows]):.2f}"


def show(rows, full):
    """The measures, and how many nats more than the full cache on the same prompts, with the 95% interval."""
    if "kl" in rows[0]:
        return measures_of(rows)
    more = [r["answer_nll"] - full[r["prompt"]]["answer_nll"] for r in rows]
    return f"{measures_of(rows)} ({interval(more)})"


def agreement(theirs, ours):
    """Of rows of a press and of its preset: kept entries in common, and the greatest distance of a measure."""
    by_prompt = {r["prompt"]: r for r in ours}
    pairs = [(r, by_prompt[r["prompt"]]) for r in theirs]
    key = "kl" if "kl" in theirs[0] else "answer_nll"
    return f"{mean([r['overlap'] for r in theirs]):.4f} {max(abs(x[key] - y[key]) for x, y in pairs):.3f}"


def setting_of(row):
    """Of a row of presses.jsonl."""
    run = row["run"].split("-")[0]
    return {"fidelity": "text", "records": "tasks"}.get(run) or next(s for s in SETTINGS if f"-{s}-" in row["prompt"])


def show_tasks(lines, budgets, tasks):
    """A table for every budget, with a column for every task. tasks: {prompt: task}"""
    names = list(dict.fromkeys(tasks.values()))
    for budget in budgets:
        table(f"By task, {budget}%", names,
              {method: [measures_of([r for r in rows if tasks[r["prompt"]] == name]) for name in names]
               for method, at in lines.items() for rows in [at.get(100) or at[budget]]})


def report(a, out, ours):
    """Tables of methods that were measured on every prompt; of presses that have a preset, how they agree with it.
    ours: (setting, run, prompt, row of `eval`)"""
    means, agree = [], defaultdict(list)
    for setting, title in SETTINGS.items():
        lines = defaultdict(lambda: defaultdict(list))
        tasks = {}
        for r in read(out):
            if setting_of(r) == setting:
                lines["kvpress " + r["press"]][r["budget"]].append(r | {"prompt": f"{r['run']}/{r['prompt']}"})
        for _, run, prompt, r in [x for x in ours if x[0] == setting]:
            measured = {k: float(r[k]) for k in MEASURES if r.get(k)}
            measured |= {"seconds": float(r["evict_s"]), "entries": int(r["entries_kept"]),
                         "kv_bytes": int(r["kv_bytes"])}
            prompt = f"{run}/{prompt}"
            budget = int((r["budget"] or "100%").rstrip("%"))
            lines["longhaul " + r["policy"]][budget].append(measured | {"prompt": prompt})
            tasks[prompt] = r.get("task")
        if "kvpress full" not in lines:
            continue
        full = {r["prompt"]: r for r in lines["kvpress full"][100]}
        everywhere = {method: at for method, at in lines.items()
                      if all(len(rows) == len(full) for rows in at.values())}
        table(f"{title}, {len(full)} prompts", ["all"] + [f"{b}%" for b in a.budgets],
              {method: [measures_of(at[100]) if at.get(100) else ""] +
               [show(at[b], full) if at.get(b) else "" for b in a.budgets] for method, at in everywhere.items()})
        if len(set(tasks.values())) > 1:
            show_tasks(everywhere, a.budgets, tasks)
        for press in a.press:
            theirs, mine = lines.get("kvpress " + press), lines.get(f"longhaul {PRESSES[press][1]}")
            if theirs and mine:
                agree[f"{press}, `{PRESSES[press][1]}`"] += [agreement(theirs[b], mine[b]) for b in a.budgets]
        for method, at in lines.items():
            for budget, rows in at.items():
                means.append({"setting": setting, "method": method, "budget": budget, "prompts": len(rows),
                              "seconds_min": min(r["seconds"] for r in rows)} |
                             {k: mean([r[k] for r in rows if k in r]) for k in (*MEASURES, "overlap", "entries", "kv_bytes") if k in rows[0]})
    columns = [title for setting, title in SETTINGS.items() if any(m["setting"] == setting for m in means)]
    if agree:
        table("Entries in common with the preset, greatest distance of the right answer's likelihood or the KL",
              [f"{name} {b}%" for name in columns for b in a.budgets], agree)
    with open(os.path.join(a.output, "means.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, list(dict.fromkeys(k for m in means for k in m)))
        writer.writeheader()
        writer.writerows(means)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    add_options(p).add_argument("--records", nargs="+",
                                help="files of `longhaul eval tasks` instead of needles and texts")
    p.add_argument("--count", type=int, default=0, help="the first records of every task in them; 0: all")
    p.add_argument("--text", help="texts that are continued; default: the haystack")
    p.add_argument("--agree", type=int, default=2,
                   help="of these, needles for presses that have a preset here, which agree; 0: no presets")
    p.add_argument("--windows", type=int, default=4, help="texts that are continued")
    p.add_argument("--budgets", default="20,10,5", type=numbers, help="percent kept")
    p.add_argument("--press", default=list(PRESSES), type=lambda s: s.split(","))
    p.add_argument("--ours", default=OURS, type=lambda s: s.split(","), help="policies of Longhaul without a press")
    p.add_argument("--score-weights", help="of `longhaul learn`, for policies that need them")
    p.add_argument("--templates", help="kinds of facts instead of a passphrase, such as examples/facts.json")
    p.add_argument("--kind", default="reporting", help="of these: a name, or what kinds are for")
    p.add_argument("--keys", default="6", help="facts in a prompt")
    a = p.parse_args()
    a.kinds = {}
    if a.templates:
        with open(a.templates, encoding="utf-8") as f:
            a.kinds = {kind["name"]: kind for kind in json.load(f)["kinds"]}
    os.makedirs(a.output, exist_ok=True)
    logging.getLogger("kvpress").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    policies = [PRESSES[press][1] for press in a.press if a.agree and PRESSES[press][1]] + a.ours
    folder, checkpoint = prepare(a)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    a.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    a.ends = {a.tokenizer.eos_token_id, model.generation_config.eos_token_id}
    chat = a.tokenizer.apply_chat_template([{"role": "user", "content": "\0"}], add_generation_prompt=True, tokenize=False)
    out = os.path.join(a.output, "presses.jsonl")
    same = ["-m", checkpoint, "--kv-dtype", "f32", "--threads", str(a.threads),
            "--budget", ",".join(f"{b}%" for b in a.budgets)]
    policies = ["--max-new", str(a.max_new), "--policy", ",".join(policies)]
    policies += ["--score-weights", a.score_weights] if a.score_weights else []
    hidden = ["--templates", a.templates, "--kinds", a.kind, "--keys", a.keys, "--scenario", "context-only"] if a.kinds else []
    ours = []
    for i, path in enumerate(a.records or []):
        run, whole = f"records-{i}", f"whole-{i}"
        tasks = ["tasks", path, "--count", str(a.count), "--metric", "string-match-all", *same]
        evaluate(a.longhaul, a.output, whole, *tasks, "--scenario", "question-aware", "--policy", "streaming",
                 "--max-new", "1")
        rows = evaluate(a.longhaul, a.output, run, *tasks, "--scenario", "context-only", *policies)
        press_all(a, model, out, run, a.press, task_questions(a, run, whole, rows))
        ours += [("tasks", run, task_name(r), r) for r in rows]
    for i in range(0 if a.records else a.needles):
        run = f"needle-{i}"
        rows = evaluate(a.longhaul, a.output, run, "needle", "--haystack", a.haystack, "--depth", needle_depth(i),
                        "--seed", str(i), *hidden, "--length", str(a.length), *same, *policies)
        press_all(a, model, out, run, [press for press in a.press if i < a.agree or not PRESSES[press][1]],
                  needle_questions(a, run, rows, chat.split("\0")[1]))
        ours += [(r["scenario"], run, needle_prompt(a.kinds, r), r) for r in rows]
    if not a.records:
        rows = evaluate(a.longhaul, a.output, "fidelity", "fidelity", "--text", a.text or a.haystack,
                        "--count", str(a.windows), "--length", str(a.length), *same, *policies)
        press_all(a, model, out, "fidelity", a.press)
        ours += [("text", "fidelity", f"{int(r['window']):04d}-{r['length']}", r) for r in rows]
    report(a, out, ours)


if __name__ == "__main__":
    main()
