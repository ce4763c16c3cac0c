#!/usr/bin/env python3
"""Makes tests/evict/presses.h5: random keys and values, and the scores that presses of kvpress give them.

  tools/make_press_goldens.py tests/evict/presses.h5       needs torch, kvpress 0.5.5, h5py

/NAME/k and /NAME/v [heads, entries, dim], in f32, and /NAME/scores [heads, entries]; the parameters of the press are attributes.
Leverage scores are those of the press with an identity in place of its random sketch: exact ones.
"""
import sys

import h5py
import torch
from kvpress import LagKVPress, LeverageScorePress

HEADS, ENTRIES, DIM = 2, 103, 8


def write(h5, name, scores, k, v, **parameters):
    group = h5.create_group(name)
    for part, x in (("k", k), ("v", v), ("scores", scores)):
        group[part] = x[0].float().numpy()
    group.attrs.update(parameters)


def leverage(k):
    random, torch.randn = torch.randn, lambda *size, **kind: torch.eye(size[-1], **kind) * size[-1] ** 0.5
    scores = LeverageScorePress.compute_leverage_scores(k, k.shape[-1])
    torch.randn = random
    return scores


def main():
    torch.manual_seed(17)
    k, v = (torch.randn(1, HEADS, ENTRIES, DIM).bfloat16().float() for _ in range(2))
    with h5py.File(sys.argv[1], "w") as h5:
        h5.attrs["longhaul"], h5.attrs["schema"] = "golden", 1
        h5.attrs["created_by"] = "make_press_goldens.py, kvpress 0.5.5"
        press = LagKVPress(compression_ratio=0.5, n_sink=4, lag_size=16)
        write(h5, "lag", press.score(None, None, k, v, None, {}), k, v, sinks=press.n_sink, lag=press.lag_size)
        write(h5, "leverage", leverage(k), k, v)


if __name__ == "__main__":
    main()
