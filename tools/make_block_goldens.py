#!/usr/bin/env python3
"""Prints the hashes of tests/import/test_quantize.c: of ggml's blocks of the values that the test computes, too.

  pip download --no-deps pywhispercpp==1.5.1 && unzip pywhispercpp-*.whl         (ggml 0.13.1)
  tools/make_block_goldens.py libggml-base.so
"""
import argparse
import ctypes

import numpy as np

FORMATS = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_K": 12, "q5_K": 13, "q6_K": 14}  # ggml's numbers
VALUES = 1 << 17


def golden_values():
    """The values of golden_value in the test."""
    i = np.arange(VALUES, dtype=np.int64)
    group, kind = i // 32, i // 4096 % 8
    v = sum((((4 * i + j) * 2654435761 & 0xffffffff) >> 16) - 32768 for j in range(4))
    v = np.select([(kind == 1) & (v % 3 != 0), kind == 2, kind == 3, kind == 4, (kind == 5) & (i % 61 == 0)],
                  [0, 4096 * (group % 5), np.abs(v), -np.abs(v), 64 * v], v)
    return np.ldexp(v.astype(np.float64), group * 7 % 11 + i // 4096 * 5 % 37 - 60).astype(np.float32)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    ggml = ctypes.CDLL(p.parse_args().library)
    quantize = ggml.ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    values = golden_values()
    blocks = np.zeros(2 * VALUES, np.uint8)
    for name, number in FORMATS.items():
        n = quantize(number, values.ctypes.data, blocks.ctypes.data, 0, VALUES // 256, 256, None)
        code = 0xcbf29ce484222325
        for byte in blocks[:n].tolist():
            code = (code ^ byte) * 0x100000001b3 & 0xffffffffffffffff
        print(f'{{"{name}", UINT64_C(0x{code:016x})}},')


if __name__ == "__main__":
    main()
