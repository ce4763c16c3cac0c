"""The score of examples/triattention.py is the trigonometric series of the paper's code: amplitudes and phases of mean queries
and keys without their rotation."""
import importlib.util
import os
import sys
import types

import numpy as np

GROUP, KV_HEADS, N, HALF, TOKENS = 3, 2, 40, 8, 57


def series(mean, length, w, keys, positions):
    """of one query head; keys: complex, without their rotation"""
    relative = mean * keys.conj()
    amplitude, phase = np.abs(mean) * np.abs(keys), np.angle(relative)
    away = (TOKENS - positions)[:, None] + 2.0 ** np.arange(17)
    turns = np.cos(away[:, :, None] * w + phase[:, None])
    extra = ((length - np.abs(mean)) * np.abs(keys)).sum(axis=1)
    return (amplitude[:, None] * turns).sum(axis=2).mean(axis=1) + extra


def main(example, folder):
    rng = np.random.default_rng(7)
    shape = (1, GROUP * KV_HEADS, HALF)
    means = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    lengths, w = np.abs(means) + rng.random(shape), 1e4 ** (-np.arange(HALF) / HALF)
    os.environ["TRIATTENTION"] = os.path.join(folder, "statistics.npz")
    np.savez(os.environ["TRIATTENTION"], means=means, lengths=lengths, frequencies=w[None], kv_heads=KV_HEADS)
    spec = importlib.util.spec_from_file_location("triattention", example)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    positions = rng.choice(TOKENS, N, replace=False)
    keys = rng.normal(size=(N, HALF)) + 1j * rng.normal(size=(N, HALF))
    rotated = keys * np.exp(1j * np.outer(positions, w))
    for head in range(KV_HEADS):
        entries = types.SimpleNamespace(layer=0, kv_head=head, tokens=TOKENS,
                                        keys=np.concatenate([rotated.real, rotated.imag], -1)[None].astype(np.float32))
        of = range(head * GROUP, (head + 1) * GROUP)
        want = np.stack([series(means[0, i], lengths[0, i], w, keys, positions) for i in of])
        want = ((want - want.mean(axis=1, keepdims=True)) / want.std(axis=1, keepdims=True)).max(axis=0)
        got = module.triattention.function(entries)
        assert got.shape == (1, N) and np.abs(got[0] - want).max() < 1e-4, np.abs(got[0] - want).max()


if __name__ == "__main__":
    main(*sys.argv[1:])
