#!/usr/bin/env python3
"""Makes tests/engine/families/repeat.h5: scores of entries by probe tokens, of models of that folder.

  tools/make_repeat_goldens.py tests/engine/families     needs torch, transformers 4.57, kvpress 0.5.5, h5py

Of mistral-nemo:

/kvzip and /kvzip-plus [layers, KV heads, LAST]: what KVzipPress gives the last entries of a prompt of TOKENS tokens, which it
repeats in two chunks. /segments [layers, KV heads, SHORT]: of a prompt of SHORT tokens that is repeated in segments of SEGMENT,
whose rows see SINKS sinks, their stretch and themselves; by a mask, in one pass a segment. /text [layers, KV heads, SHORT]: the
largest weights that the same prompt gets from the rows of two questions, each of which follows it. Token i is
(i * 31 + i // 7) % 96.

Of smollm3-window, with line ends in its vocabulary: /text-chat, the same with what CHAT writes after a question; zeros in
layers whose window is shorter than the prompt.
"""
import os
import sys

import h5py
import torch
from kvpress import KVzipPress
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS, LAST, SHORT, SEGMENT, SINKS, QUOTE = 2148, 148, 200, 64, 4, 8
FIRST = "\n\nRepeat the previous context exactly."
QUESTIONS = "What is it?", "Where was it, and when?"
CHAT = "\n[assistant]\n"  # of the chat template in tests/engine/test_probes.c
LINE_END = "\u00a1", "\u010a"  # as bytes are written there
LATER = "\n\nRepeat the part of the previous context exactly, starting with"


def prompt(n):
    return [(i * 31 + i // 7) % 96 for i in range(n)]


def load(folder, attention):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()


class Scores(KVzipPress):
    def compress_post(self, model):
        self.taken = self.score_val[:, 0].clone()


@torch.no_grad()
def press_scores(folder, plus):
    model = load(folder, "sdpa")
    press = Scores(compression_ratio=0.5, n_sink=SINKS, kvzip_plus_normalization=plus)
    with press(model):
        from transformers import DynamicCache
        model.model(input_ids=torch.tensor([prompt(TOKENS)]), past_key_values=DynamicCache())
    return press.taken[:, :, -LAST:]


@torch.no_grad()
def segment_scores(folder):
    model, tok, ids = load(folder, "eager"), AutoTokenizer.from_pretrained(folder), prompt(SHORT)
    group = model.config.num_attention_heads // model.config.num_key_value_heads
    parts = []
    for first in range(0, SHORT, SEGMENT):
        stretch = ids[first:first + SEGMENT]
        lead = tok.encode(LATER if first else FIRST, add_special_tokens=False)
        lead += ids[first - QUOTE:first] if first else []
        rows = lead + tok.encode("\n", add_special_tokens=False) + stretch
        n = SHORT + len(rows)
        sees = torch.tril(torch.ones(n, n, dtype=torch.bool))
        sees[SHORT:, min(SINKS, first):first] = False
        sees[SHORT:, first + len(stretch):SHORT] = False
        mask = torch.where(sees, 0.0, torch.finfo(torch.float32).min)[None, None]
        out = model(input_ids=torch.tensor([ids + rows]), position_ids=torch.arange(n)[None], attention_mask=mask,
                    output_attentions=True, use_cache=False)
        weights = torch.stack(out.attentions)[:, 0, :, SHORT:, first:first + len(stretch)]
        parts.append(weights.unflatten(1, (-1, group)).amax(dim=(2, 3)))
    return torch.cat(parts, -1)


@torch.no_grad()
def text_scores(folder, ending):
    model, ids = load(folder, "eager"), prompt(SHORT)
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        tok = Tokenizer.from_str(f.read().replace(*LINE_END))
    group = model.config.num_attention_heads // model.config.num_key_value_heads
    parts = []
    for question in QUESTIONS:
        rows = tok.encode(question + ending, add_special_tokens=False).ids
        out = model(input_ids=torch.tensor([ids + rows]), output_attentions=True, use_cache=False)
        weights = torch.stack(out.attentions)[:, 0, :, SHORT:, :SHORT]
        parts.append(weights.unflatten(1, (-1, group)).amax(dim=(2, 3)))
    scores = torch.stack(parts).amax(dim=0)
    for i, kind in enumerate(getattr(model.config, "layer_types", None) or []):
        if kind == "sliding_attention":
            scores[i] = 0
    return scores


def main():
    families = sys.argv[1]
    nemo, window = (os.path.join(families, name) for name in ("mistral-nemo", "smollm3-window"))
    with h5py.File(os.path.join(families, "repeat.h5"), "w") as h5:
        h5.attrs["longhaul"], h5.attrs["schema"] = "golden", 1
        h5.attrs["created_by"] = "make_repeat_goldens.py, kvpress 0.5.5"
        h5["kvzip"] = press_scores(nemo, False).float().numpy()
        h5["kvzip-plus"] = press_scores(nemo, True).float().numpy()
        h5["segments"] = segment_scores(nemo).float().numpy()
        h5["text"] = text_scores(nemo, "").float().numpy()
        h5["text-chat"] = text_scores(window, CHAT).float().numpy()


if __name__ == "__main__":
    main()
