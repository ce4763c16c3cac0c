#!/usr/bin/env python3
"""The accuracy of bf16 weights, products and cache: KL divergence from f32 and agreement of the best token, over every position
of a text. Needs h5py and numpy.

  tools/compare_bf16.py MODEL.h5 TEXT [--longhaul build/longhaul] [--rows 512]
"""
import argparse
import os
import subprocess
import tempfile

import h5py
import numpy as np


def rows(a, work, dtype):
    out = os.path.join(work, dtype + ".h5")
    subprocess.run([a.longhaul, "generate", "-m", a.model, "-f", a.text, "-n", "1", "--dtype", dtype, "--logits", out, "--logits-last",
                    str(a.rows), "-q", "--ignore-eos"], check=True, stdout=subprocess.DEVNULL)
    with h5py.File(out) as f:
        x = f["logits"][:].astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("text")
    p.add_argument("--longhaul", default="build/longhaul")
    p.add_argument("--rows", type=int, default=512)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        f32, bf16 = rows(a, work, "f32"), rows(a, work, "bf16")
    kl = (np.exp(f32) * (f32 - bf16)).sum(axis=1)
    same = (f32.argmax(axis=1) == bf16.argmax(axis=1)).mean()
    print(f"{len(kl)} positions: mean KL {kl.mean():.2e} nats, largest {kl.max():.2e}; best token the same on {100 * same:.1f}%")


if __name__ == "__main__":
    main()
