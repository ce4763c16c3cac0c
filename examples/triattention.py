#!/usr/bin/env python3
"""TriAttention (arXiv 2604.04921) as a score in Python: how much the mean query of a head, which turns with the distance,
will attend to a key, over distances of 1, 2, 4 ... 65,536 tokens to come.

  longhaul trace -m m.h5 -f text.txt -n 1 --trace-rows 4096 -o t.h5
  examples/triattention.py t.h5 m.npz                                the statistics of the queries, from a trace
  TRIATTENTION=m.npz longhaul eval recall -m m.h5 --policy './examples/triattention.py --evict every:64' --budget 160 ...

Of query head h and frequency f, with queries as complex numbers without their rotation: q(h, f) their mean, a(h, f) the mean
of their lengths. Score of a key k after t tokens, the mean over the distances d (section 3 of the paper, and its code):

    sum over f of Re(q(h, f) exp(i w(f) (t + d)) conj(k(f))) + (a(h, f) - |q(h, f)|) |k(f)|

k is rotated, so that its own position is in it. The scores of a query head get mean 0 and deviation 1; a KV head takes the
largest of its query heads. Needs numpy, the statistics h5py. For models that rotate halves of a head by constant frequencies.
"""
import json
import os
import sys

import numpy as np

import longhaul

DISTANCES = 2.0 ** np.arange(17)


def pairs(x):
    """[..., d] as complex numbers [..., d / 2]: a channel and its partner in the other half"""
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:]


def statistics(trace):
    """means [layers, query heads, d / 2], lengths of the same shape, frequencies [layers, d / 2], kv_heads"""
    import h5py
    means, lengths, frequencies = [], [], []
    with h5py.File(trace) as file:
        kv_heads = json.loads(file["model"][()])["kv_heads"]
        for layer in sorted(file["layers"]):
            data = file["layers"][layer]
            w = data["rotation/frequencies"][:]
            q = pairs(data["prefill/queries"][:].astype(np.float32)) * np.exp(-1j * np.outer(file["rows"][:], w))[:, None]
            means.append(q.mean(axis=0))
            lengths.append(np.abs(q).mean(axis=0))
            frequencies.append(w)
    return {"means": np.stack(means), "lengths": np.stack(lengths), "frequencies": np.stack(frequencies),
            "kv_heads": kv_heads}


@longhaul.score
def triattention(entries):
    """the mean query of a head, at distances to come"""
    means, lengths = (known[name][entries.layer] for name in ("means", "lengths"))
    w, keys = known["frequencies"][entries.layer], pairs(entries.keys[0])
    group = len(means) // known["kv_heads"]
    own = slice(entries.kv_head * group, (entries.kv_head + 1) * group)
    ahead = np.exp(1j * np.outer(entries.tokens + DISTANCES, w)).mean(axis=0)
    scores = ((means[own] * ahead) @ keys.conj().T).real + (lengths[own] - np.abs(means[own])) @ np.abs(keys).T
    scores = (scores - scores.mean(axis=1, keepdims=True)) / np.maximum(scores.std(axis=1, keepdims=True), 1e-6)
    return scores.max(axis=0)[None]


if __name__ == "__main__":
    np.savez(sys.argv[2], **statistics(sys.argv[1]))
else:
    known = dict(np.load(os.environ["TRIATTENTION"]))
