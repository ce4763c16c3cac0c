#!/usr/bin/env python3
"""Records a trace of a model in transformers, on any device, for `longhaul replay`: the model need not be one that Longhaul runs.

  examples/trace_transformers.py MODEL text.txt -n 64 -o t.trace.h5
  longhaul replay t.trace.h5 --policy snapkv,h2o,keydiff --budget 5%,20% -o t.analysis.h5
  longhaul report t.analysis.h5 -o t.html

Needs torch, transformers 4.48 or newer, and the package longhaul with h5py. The answer is generated greedily; then one forward
pass over text and answer is recorded: an attention function in the place of the model's own sees rotated queries and keys.
"""
import argparse

import longhaul
import torch
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("text")
parser.add_argument("-n", "--max-new", type=int, default=64)
parser.add_argument("-o", "--output", required=True)
options = parser.parse_args()

seen = {}


def record(module, query, key, value, attention_mask, **arguments):
    """query [1, heads, n, d], key and value [1, kv_heads, n, d]"""
    seen[module.layer_idx] = {name: x[0].float().cpu().numpy() for name, x in (("queries", query), ("keys", key), ("values", value))}
    seen[module.layer_idx]["output_projection"] = module.o_proj.weight.detach().float().cpu().numpy()
    return sdpa_attention_forward(module, query, key, value, attention_mask, **arguments)


tokenizer = AutoTokenizer.from_pretrained(options.model)
model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
with open(options.text, encoding="utf-8") as file:
    prompt = tokenizer(file.read(), return_tensors="pt").input_ids
with torch.no_grad():
    tokens = model.generate(prompt, max_new_tokens=options.max_new, do_sample=False)
    AttentionInterface.register("record", record)
    model.set_attn_implementation("record")
    model(tokens, use_cache=False)
frequencies = model.model.rotary_emb.inv_freq.float().cpu().numpy()
layers = [dict(seen[number], frequencies=frequencies) for number in sorted(seen)]
longhaul.write_trace(options.output, tokens[0].numpy(), layers, prompt.shape[1])
print(f"{prompt.shape[1]} tokens of prompt, {tokens.shape[1] - prompt.shape[1]} after it: {options.output}")
