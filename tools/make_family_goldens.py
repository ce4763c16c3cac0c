#!/usr/bin/env python3
"""Makes the reference results of tests/engine/families: tiny random models, and what Hugging Face computes with them.

  tools/make_family_goldens.py FOLDER [NAME …]          needs torch, transformers 4.57, h5py, tokenizers

Of each model: FOLDER/NAME/, as transformers saves it (weights in bf16), with a byte-level tokenizer, and FOLDER/NAME.h5 with
/tokens, /logits of the last prompt positions, /greedy tokens and /step_logits, every step computed without a cache, in
f32. Norms are moved away from 1 and biases away from 0, so that one left out shows.
"""
import os
import sys

import h5py
import numpy as np
import torch
import transformers

TOKENS, LAST, STEPS, VOCAB = 90, 4, 12, 96
USUAL = dict(vocab_size=VOCAB, hidden_size=40, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=4096, pad_token_id=None, bos_token_id=1, eos_token_id=2)

# name: (class of the configuration, what differs)
MODELS = {
    "smollm3": ("SmolLM3Config", dict(rope_theta=5000.0, tie_word_embeddings=True)),
    "smollm3-window": ("SmolLM3Config", dict(no_rope_layers=[1, 0, 1, 0], use_sliding_window=True, sliding_window=24)),
    "granite": ("GraniteConfig", dict(embedding_multiplier=12.0, attention_multiplier=0.2, residual_multiplier=0.22,
                                      logits_scaling=0.5, attention_bias=True, mlp_bias=True)),
    "mistral-nemo": ("MistralConfig", dict(head_dim=24, sliding_window=None, rope_theta=1e6,
                                           max_position_embeddings=8192)),
    "olmo2": ("Olmo2Config", dict(num_attention_heads=6, num_key_value_heads=3, hidden_size=48)),
    "olmo3": ("Olmo3Config", dict(sliding_window=20, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0))),
    "seed-oss": ("SeedOssConfig", dict(head_dim=12)),
    "exaone4": ("Exaone4Config", dict(sliding_window=20, sliding_window_pattern=4, num_hidden_layers=4)),
    "exaone4-full": ("Exaone4Config", dict(sliding_window=None, layer_types=["full_attention"] * 4,
                                           tie_word_embeddings=True)),
    "mixtral": ("MixtralConfig", dict(intermediate_size=30, num_local_experts=6, num_experts_per_tok=3)),
    "qwen3-moe": ("Qwen3MoeConfig", dict(head_dim=12, moe_intermediate_size=20, num_experts=10, num_experts_per_tok=4,
                                         use_sliding_window=True, sliding_window=24)),
    "qwen3-moe-normalised": ("Qwen3MoeConfig", dict(moe_intermediate_size=51, num_experts=5, num_experts_per_tok=2,
                                                    norm_topk_prob=True, attention_bias=True)),
}


def stir(model):
    """Weights of order one: what is left out or mistaken moves the logits by far more than rounding."""
    generator = torch.Generator().manual_seed(5)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() == 1:
            weight.data = (1 + 0.3 * noise) if "norm" in name else 0.5 * noise
        elif "embed" in name or "lm_head" in name:
            weight.data = noise
        else:
            weight.data = noise * weight.shape[1] ** -0.5 * 1.5
        weight.data = weight.data.bfloat16().float()


def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[:VOCAB]
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def make(folder, name):
    kind, differs = MODELS[name]
    config = getattr(transformers, kind)(**{**USUAL, **differs})
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    stir(model)
    tokens = torch.randint(0, VOCAB, (TOKENS,), generator=torch.Generator().manual_seed(7))
    ids, steps = tokens[None], []
    with torch.no_grad():
        for _ in range(STEPS):
            logits = model(ids, use_cache=False).logits[0]
            steps.append(logits[-1].numpy())
            last = logits[-LAST:].numpy() if len(steps) == 1 else last
            ids = torch.cat([ids, logits[-1].argmax()[None, None]], 1)
    with h5py.File(f"{folder}/{name}.h5", "w") as f:
        f.attrs["longhaul"], f.attrs["schema"] = "golden", 1
        f.attrs["created_by"] = f"make_family_goldens.py, transformers {transformers.__version__}"
        f["tokens"] = tokens.numpy().astype("i4")
        f["logits"] = last.astype("f4")
        f["greedy"] = ids[0, TOKENS:].numpy().astype("i4")
        f["step_logits"] = np.array(steps, "f4")
    best = np.sort(np.array(steps), 1)
    print(f"{name}: standard deviation {np.std(steps):.2f}, smallest margin {(best[:, -1] - best[:, -2]).min():.3f}")
    model.bfloat16().save_pretrained(f"{folder}/{name}")
    tokenizer().save(f"{folder}/{name}/tokenizer.json")
    os.remove(f"{folder}/{name}/generation_config.json")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        make(sys.argv[1], name)
