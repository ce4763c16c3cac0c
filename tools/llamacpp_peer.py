"""llama.cpp through its Python binding, for the tools that compare with it: contexts with several sequences, evaluated in this process.

  pip install --no-binary llama-cpp-python llama-cpp-python gguf numpy      (builds llama.cpp for this machine)
"""
import ctypes
import os
import subprocess
import sys
import time

import gguf
import llama_cpp as lib
import numpy as np

F16, BF16, F32 = gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16, gguf.GGMLQuantizationType.F32
CALL = 512  # maximum tokens of a call of llama_decode


def build():
    """A line about the build: its version and instruction sets, and the ones of this processor that it lacks."""
    with open("/proc/cpuinfo", encoding="ascii") as f:
        flags = next(line for line in f if line.startswith("flags")).split()
    info = lib.llama_print_system_info().decode()
    known = {"avx2": "AVX2", "fma": "FMA", "avx512f": "AVX512", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16", "amx_int8": "AMX_INT8"}
    has = {name for name in known.values() if f"{name} = 1" in info}
    lacks = [name for flag, name in known.items() if flag in flags and name not in has]
    return (f"llama-cpp-python {lib.__version__} with {', '.join(sorted(has))}" +
            (f"; NO FAIR PEER: built without this processor's {', '.join(lacks)}" if lacks else ", as this processor has them"))


class Peer:
    """A model and a context of `tokens` cells for each of the sequences."""

    def __init__(self, path, threads, tokens, sequences, flash=True):
        lib.llama_backend_init()
        self.silent = lib.llama_log_callback(lambda *_: None)
        lib.llama_log_set(self.silent, ctypes.c_void_p(0))
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        p = lib.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = sequences * tokens, CALL, CALL, sequences
        p.n_threads = p.n_threads_batch = threads
        p.flash_attn_type, p.kv_unified = int(flash), False  # with one buffer of all sequences each row reads the entries of all
        self.context = lib.llama_init_from_model(self.model, p)
        self.memory = lib.llama_get_memory(self.context)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(CALL, 0, 1)

    def close(self):
        lib.llama_batch_free(self.batch)
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def call(self, items):
        """items: (token, position, sequence, wants logits), evaluated together."""
        b = self.batch
        b.n_tokens = len(items)
        for i, (token, position, sequence, wanted) in enumerate(items):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = sequence
        if lib.llama_decode(self.context, b) != 0:
            sys.exit("llama_decode failed: too few cells in its cache?")

    def best(self, item):
        row = lib.llama_get_logits_ith(self.context, item)
        return int(np.ctypeslib.as_array(row, (self.vocab,)).argmax())

    def prefill(self, ids):
        """Tokens per second of a prompt, in an empty cache."""
        lib.llama_memory_clear(self.memory, True)
        start = time.perf_counter()
        for first in range(0, len(ids), CALL):
            self.call([(t, i, 0, i == len(ids) - 1) for i, t in enumerate(ids[first:first + CALL], first)])
        lib.llama_synchronize(self.context)
        return len(ids) / (time.perf_counter() - start)

    def decode(self, ids, sequences, steps):
        """Tokens per second of steps after the prompt that prefill() read, in every sequence; the first one is not timed."""
        lib.llama_memory_seq_rm(self.memory, 0, len(ids), -1)
        for s in range(1, sequences):
            lib.llama_memory_seq_rm(self.memory, s, -1, -1)
            lib.llama_memory_seq_cp(self.memory, 0, s, -1, -1)
        for n in range(steps + 1):
            if n == 1:
                start = time.perf_counter()
            self.call([(ids[n], len(ids) + n, s, True) for s in range(sequences)])
        lib.llama_synchronize(self.context)
        return sequences * steps / (time.perf_counter() - start)


def run(*cmd):
    """Standard output of a command, which may be mpirun."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               OMPI_MCA_hwloc_base_binding_policy="none")
    done = subprocess.run(cmd, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(cmd)}: {done.stderr}")
    return done.stdout


def to_bf16(src, dst, types):
    """A copy of a GGUF with the matrices of these types as BF16 and vectors as F32."""
    reader = gguf.GGUFReader(src)
    arch = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(dst, arch)
    skip = {"general.architecture", "general.file_type", "general.quantization_version"}
    for field in reader.fields.values():
        if field.name in skip or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for t in reader.tensors:
        if len(t.shape) == 1:
            writer.add_tensor(t.name, gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32), raw_dtype=F32)
        elif t.tensor_type in types:
            writer.add_tensor(t.name, gguf.quants.quantize(gguf.quants.dequantize(t.data, t.tensor_type), BF16), raw_dtype=BF16)
        else:
            writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def same_for_both(path, dtype, work):
    """The GGUF that both sides read, and a note of the converted types: its matrices of F16, with which Longhaul computes in f32 and llama.cpp in
    f16, become BF16; with the dtype "bf16" all matrices do. A copy lies in the folder `work`."""
    matrices = {t.tensor_type for t in gguf.GGUFReader(path).tensors if len(t.shape) > 1}
    converted = matrices - {BF16} if dtype == "bf16" else matrices & {F16}
    if not converted:
        return path, ""
    copy = os.path.join(work, "bf16.gguf")
    to_bf16(path, copy, converted)
    return copy, f", {' and '.join(sorted(t.name for t in converted))} as BF16 for both"
