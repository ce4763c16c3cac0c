#!/usr/bin/env python3
"""Makes tests/import/quantised: quantised folders of a tiny Llama of one layer, and hashes of the values that other
programs read from them.

  tools/make_quantised_goldens.py FOLDER    needs torch, transformers 5, compressed-tensors 0.20, auto-gptq 0.7,
                                            autoawq 0.2, safetensors, xxhash

Codes and values come from compressed-tensors' compressors, transformers' Fp8Dequantize, AutoGPTQ's QuantLinear (pack
and forward) and AutoAWQ's dequantize_gemm. FOLDER/NAME/ is a folder in Hugging Face's layout; a line of
FOLDER/values.txt is the name of the folder, the module and the XXH64 of the module's weight [rows, columns] as f32.
"""
import importlib.util
import json
import os
import site
import sys

import numpy as np
import torch
import xxhash
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

HIDDEN, HEADS, KV_HEADS, FF, VOCAB = 64, 4, 2, 96, 16
CONFIG = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=VOCAB, hidden_size=HIDDEN,
              intermediate_size=FF, num_hidden_layers=1, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
              max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0, bos_token_id=1, eos_token_id=2)
EXPERTS = 3
MIXTURE = dict(CONFIG, model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], head_dim=HIDDEN // HEADS,
               moe_intermediate_size=FF, num_experts=EXPERTS, num_experts_per_tok=2, norm_topk_prob=True,
               decoder_sparse_step=1, mlp_only_layers=[])
# A Llama whose rows are no multiple of 32 long.
ODD = dict(CONFIG, hidden_size=80, intermediate_size=48)
# A Llama whose rows are as long as a block of f8_e4m3.
WIDE = dict(CONFIG, hidden_size=128, intermediate_size=128)


def module_of(package, path):
    """A module of an installed package without the package's imports."""
    for root in site.getsitepackages():
        file = os.path.join(root, package, path)
        if os.path.exists(file):
            spec = importlib.util.spec_from_file_location("single", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SystemExit(f"no package {package}")


# ---- compressed-tensors ----
def grouped_scales(weight, bits, group, symmetric, dtype):
    rows = weight.reshape(weight.shape[0], -1, group)
    if symmetric:
        return (rows.abs().amax(-1) / (2 ** (bits - 1) - 0.5)).to(dtype), None
    low, high = rows.amin(-1).clamp(max=0), rows.amax(-1).clamp(min=0)
    scale = ((high - low) / (2**bits - 1)).to(dtype)
    zero = (-(2 ** (bits - 1)) - torch.round(low / scale.float())).clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return scale, zero.to(torch.int8)


def describe(form, args):
    """The configuration of a folder."""
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": args}}}


def compress(weight, form, bits, group=None, symmetric=True, kind="int", dtype=torch.bfloat16, block=None,
             tensor=False):
    """The tensors of a weight, its values in f32, and the arguments of the configuration."""
    rows, cols = weight.shape
    strategy = "block" if block else "tensor" if tensor else "group" if group else "channel"
    args = dict(num_bits=bits, type=kind, symmetric=symmetric, strategy=strategy, dynamic=False)
    if group:
        args["group_size"] = group
    if block:
        args["block_structure"] = list(block)
    zero = None
    if kind == "float":
        size = (block or (rows, cols)) if block or tensor else (1, cols)
        padded = torch.nn.functional.pad(weight, (0, -cols % size[1], 0, -rows % size[0]))
        scale = padded.reshape(-(-rows // size[0]), size[0], -1, size[1]).abs().amax((1, 3)) / 448
        scale = (scale.reshape(1) if tensor else scale).to(dtype)
    else:
        scale, zero = grouped_scales(weight, bits, group or cols, symmetric, dtype)
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    compressor = BaseCompressor.get_value_from_registry(form)
    state = {"weight": weight, "weight_scale": scale}
    if zero is not None:
        state["weight_zero_point"] = zero
    parts = compressor.compress(state, scheme)
    exact = {n: t.float() if n == "weight_scale" else t for n, t in parts.items()}
    return parts, compressor.decompress(exact, scheme)["weight"].float(), args


def compressed(form, **how):
    def make(weights):
        tensors, values, args = {}, {}, None
        for name, weight in weights.items():
            parts, values[name], args = compress(weight, form, **how)
            tensors.update({f"{name}.{part}": t for part, t in parts.items()})
        return tensors, values, describe(form, args)
    return make


def act_order(weights):
    """Columns of a group are scattered: groups are quantised in their order, and codes are stored in the model's."""
    tensors, values, args = {}, {}, None
    for name, weight in weights.items():
        order = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(len(name)))
        parts, dense, args = compress(weight[:, order], "pack-quantized", 4, group=32)
        back = torch.argsort(order)
        codes = torch.round(dense / parts["weight_scale"].float().repeat_interleave(32, 1)).to(torch.int8)
        parts["weight_packed"] = pack_to_int32(codes[:, back].contiguous(), 4)
        parts["weight_g_idx"] = (torch.arange(weight.shape[1]) // 32)[back].to(torch.int32)
        values[name] = dense[:, back]
        tensors.update({f"{name}.{part}": t for part, t in parts.items()})
    return tensors, values, describe("pack-quantized", dict(args, actorder="group"))


def nvfp4(weights):
    tensors, values = {}, {}
    args = dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16, dynamic=False)
    compressor = BaseCompressor.get_value_from_registry("nvfp4-pack-quantized")
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    for name, weight in weights.items():
        total = (448 * 6 / weight.abs().max()).reshape(1).float()
        scale = (weight.reshape(weight.shape[0], -1, 16).abs().amax(-1) / 6 * total).to(torch.float8_e4m3fn).float()
        parts = compressor.compress({"weight": weight, "weight_scale": scale, "weight_global_scale": total}, scheme)
        # The values of the codes, read without scales, times scales in f32: decompress() rounds to bf16.
        codes = unpack_fp4_from_uint8(parts["weight_packed"], *weight.shape, dtype=torch.float32)
        each = parts["weight_scale"].float() / total
        values[name] = codes * each.repeat_interleave(16, 1)
        rounded = compressor.decompress(dict(parts), scheme)["weight"].float()
        assert (rounded - values[name]).abs().max() < 0.02 * weight.abs().max()
        tensors.update({f"{name}.{part}": t for part, t in parts.items()})
    return tensors, values, describe("nvfp4-pack-quantized", args)


def experts(first_centred):
    """A mixture of experts with zero points; True: those of the first expert are 0, so that it alone is symmetric."""
    def make(weights):
        tensors, values, args = {}, {}, None
        for name, weight in weights.items():
            parts, values[name], args = compress(weight, "pack-quantized", 4, group=32, symmetric=False)
            if first_centred and ".experts.0." in name:
                symmetric, values[name], _ = compress(weight, "pack-quantized", 4, group=32)
                zeros = torch.zeros_like(symmetric["weight_scale"], dtype=torch.int8)
                parts = dict(symmetric, weight_zero_point=pack_to_int32(zeros, 4, packed_dim=0).contiguous())
            tensors.update({f"{name}.{part}": t for part, t in parts.items()})
        return tensors, values, describe("pack-quantized", args)
    return make


# ---- fp8 of transformers ----
def fp8(block):
    def make(weights):
        from transformers.integrations.finegrained_fp8 import Fp8Dequantize
        tensors, values = {}, {}
        for name, weight in weights.items():
            rows, cols = weight.shape
            size = block or (rows, cols)
            scale = weight.reshape(rows // size[0], size[0], cols // size[1], size[1]).abs().amax((1, 3)) / 448
            codes = (weight / scale.repeat_interleave(size[0], 0).repeat_interleave(size[1], 1)).to(torch.float8_e4m3fn)
            tensors[name + ".weight"] = codes
            tensors[name + ".weight_scale_inv"] = scale if block else scale.reshape(())
            values[name] = Fp8Dequantize(None)._dequantize_one(codes, scale, torch.float32)
        return tensors, values, {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                                 "weight_block_size": list(block) if block else None,
                                 "modules_to_not_convert": ["lm_head"]}
    return make


# ---- AutoGPTQ ----
def gptq(bits, symmetric, desc_act=False, v2=False, group=32):
    def make(weights):
        layer = module_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py").QuantLinear
        tensors, values = {}, {}
        for name, weight in weights.items():
            order = torch.arange(weight.shape[1]) // group
            if desc_act:
                order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(len(name)))]
            sorted_columns = weight[:, torch.argsort(order, stable=True)]
            scale, zero = grouped_scales(sorted_columns, bits, group, symmetric, torch.float16)
            zero = torch.zeros_like(scale) if zero is None else zero
            zero = (zero.float() + 2 ** (bits - 1)).clamp(1, 2**bits - 1)
            each, centre = scale.float()[:, order], zero[:, order]
            linear = torch.nn.Linear(*reversed(weight.shape), bias=False)
            linear.weight.data = each * ((torch.round(weight / each) + centre).clamp(0, 2**bits - 1) - centre)
            quantised = layer(bits, group, weight.shape[1], weight.shape[0], bias=False)
            quantised.pack(linear, scale.float(), zero.clone(), g_idx=order.to(torch.int32))
            quantised.scales = scale.t().contiguous().float()
            values[name] = quantised(torch.eye(weight.shape[1])).t().contiguous()
            parts = {"qweight": quantised.qweight, "qzeros": quantised.qzeros, "scales": scale.t().contiguous(),
                     "g_idx": order.to(torch.int32)}
            if v2:
                ones = np.uint32(sum(1 << i for i in range(0, 32, bits)))
                parts["qzeros"] = torch.from_numpy((parts["qzeros"].numpy().view(np.uint32) + ones).view(np.int32))
            tensors.update({f"{name}.{part}": t for part, t in parts.items()})
        return tensors, values, {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": desc_act,
                                 "sym": symmetric, "lm_head": False, "checkpoint_format": "gptq_v2" if v2 else "gptq"}
    return make


# ---- AutoAWQ ----
def awq(weights):
    helpers = module_of("awq", "utils/packing_utils.py")
    tensors, values = {}, {}

    def pack(codes):  # [rows, columns]: eight columns of a word in AutoAWQ's order
        lanes = codes.reshape(codes.shape[0], -1, 8)[:, :, helpers.AWQ_ORDER].to(torch.int64)
        word = sum(lanes[:, :, i] << (4 * i) for i in range(8))
        return torch.from_numpy(np.ascontiguousarray(word.numpy().astype(np.uint32)).view(np.int32))

    for name, weight in weights.items():
        scale, zero = grouped_scales(weight, 4, 32, False, torch.float16)
        zero = zero.int() + 8
        each, centre = scale.float().repeat_interleave(32, 1), zero.repeat_interleave(32, 1)
        codes = (torch.round(weight / each) + centre).clamp(0, 15)
        parts = {"qweight": pack(codes.t().int()), "qzeros": pack(zero.t()), "scales": scale.t().contiguous()}
        dense = helpers.dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"].float(), 4, 32)
        values[name] = dense.t().contiguous()
        tensors.update({f"{name}.{part}": t for part, t in parts.items()})
    return tensors, values, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
                             "modules_to_not_convert": None}


MODELS = {
    "int4-group": compressed("pack-quantized", bits=4, group=32),
    "int4-asymmetric": compressed("pack-quantized", bits=4, group=32, symmetric=False),
    "int4-channel": compressed("pack-quantized", bits=4, dtype=torch.float32),
    "int4-act-order": act_order,
    "int4-odd-group": compressed("pack-quantized", bits=4, group=16),
    "int8-group": compressed("pack-quantized", bits=8, group=32),
    "int8-channel": compressed("int-quantized", bits=8),
    "int8-asymmetric": compressed("int-quantized", bits=8, symmetric=False),
    "float8-block": compressed("float-quantized", bits=8, kind="float", block=(24, 40), dtype=torch.float32),
    "float8-tensor": compressed("float-quantized", bits=8, kind="float", tensor=True),
    "float8-channel": compressed("float-quantized", bits=8, kind="float"),
    "nvfp4": nvfp4,
    "fp8-tensor": fp8(None),
    "fp8-block": fp8((16, 32)),
    "gptq-8bit": gptq(8, True),
    "gptq-v2": gptq(4, False, v2=True),
    "gptq-asymmetric": gptq(4, False),
    "gptq-desc-act": gptq(4, True, desc_act=True),
    "awq": awq,
}


# Qwen 3's mixture of experts.
MIXTURES = {"experts": experts(False), "experts-mixed": experts(True)}

ODD_MODELS = {"int8-odd-rows": compressed("int-quantized", bits=8)}

WIDE_MODELS = {"fp8-wide": fp8((64, 128)), "float8-wide": compressed("float-quantized", bits=8, kind="float")}


def config_of(name):
    return MIXTURE if name in MIXTURES else ODD if name in ODD_MODELS else WIDE if name in WIDE_MODELS else CONFIG


def shapes_of(config):
    """Modules and their shapes; of a mixture each expert's."""
    hidden, ff = config["hidden_size"], config["intermediate_size"]
    kv = hidden // HEADS * KV_HEADS
    matrices = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
                "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (ff, hidden), "mlp.up_proj": (ff, hidden),
                "mlp.down_proj": (hidden, ff)}
    shapes = {}
    for module, shape in matrices.items():
        group, _, name = module.partition(".")
        names = [f"mlp.experts.{i}.{name}" for i in range(config.get("num_experts", 0)) if group == "mlp"] or [module]
        shapes.update({n: shape for n in names})
    return shapes


def join_experts(values):
    """The values of all experts are one matrix."""
    joined = {}
    for name, value in values.items():
        parts = name.split(".experts.")
        module = name if len(parts) == 1 else f"{parts[0]}.{parts[1].split('.')[1]}"
        joined.setdefault(module, []).append(value)
    return {module: torch.cat(parts) for module, parts in joined.items()}


def main():
    folder, lines = sys.argv[1], []
    for name, make in {**MODELS, **MIXTURES, **ODD_MODELS, **WIDE_MODELS}.items():
        described = config_of(name)
        hidden = described["hidden_size"]
        generator = torch.Generator().manual_seed(7)
        weights = {f"model.layers.0.{m}": torch.randn(shape, generator=generator) * shape[1] ** -0.5 * 1.5 + 0.02
                   for m, shape in shapes_of(described).items()}
        tensors, values, config = make(weights)
        if name in MIXTURES:
            for head in ("q_norm", "k_norm"):
                tensors[f"model.layers.0.self_attn.{head}.weight"] = torch.ones(HIDDEN // HEADS).bfloat16()
            tensors["model.layers.0.mlp.gate.weight"] = torch.randn(EXPERTS, HIDDEN, generator=generator).bfloat16()
        for plain in ("model.embed_tokens", "lm_head"):
            tensors[plain + ".weight"] = torch.randn(VOCAB, hidden, generator=generator).bfloat16()
        for norm in ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"):
            tensors[norm + ".weight"] = (1 + 0.3 * torch.randn(hidden, generator=generator)).bfloat16()
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        save_file({n: t.contiguous() for n, t in tensors.items()}, os.path.join(folder, name, "model.safetensors"),
                  metadata={"format": "pt"})
        with open(os.path.join(folder, name, "config.json"), "w") as f:
            json.dump(dict(described, quantization_config=config), f, indent=1)
            f.write("\n")
        for module, value in join_experts(values).items():
            hash = xxhash.xxh64(np.ascontiguousarray(value.detach().numpy(), np.float32).tobytes()).hexdigest()
            lines.append(f"{name} {module} {hash}\n")
    with open(os.path.join(folder, "values.txt"), "w") as f:
        f.writelines(lines)


main()
