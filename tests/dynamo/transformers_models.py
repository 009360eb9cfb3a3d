"""Models of transformers with configurations so small that each compiles in seconds."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

# Fields of configurations; each model takes those that it has.
SMALL: dict[str, Any] = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embedding_size": 32, "word_embed_proj_dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8, "rotary_dim": 8,
    "intermediate_size": 64, "hidden_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64, "ffn_dim": 64,
    "d_inner": 64, "n_inner": 64, "vocab_size": 99, "max_position_embeddings": 80, "n_positions": 80, "max_seq_len": 80,
    "num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": 32, "num_experts_per_tok": 2, "state_size": 4,
    "image_size": 32, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 0,
}  # fmt: skip
CAUSAL = """
    gpt2 llama mistral qwen2 qwen3 gpt_neox gptj opt bloom phi phi3 gemma gemma2 stablelm mpt codegen olmo olmo2
    starcoder2 cohere granite mixtral qwen2_moe olmoe ctrl xglm biogpt openai-gpt mamba rwkv persimmon nemotron
    glm smollm3 helium
""".split()  # noqa: SIM905 - a list would be longer than what it says
TEXT = """
    bert roberta distilbert albert electra mobilebert deberta-v2 deberta mpnet squeezebert camembert xlm-roberta
    ernie nystromformer convbert layoutlm roformer fnet modernbert splinter rembert megatron-bert ibert
""".split()  # noqa: SIM905 - a list would be longer than what it says
PAIRS = """
    t5 bart mbart pegasus marian blenderbot led
""".split()  # noqa: SIM905 - a list would be longer than what it says
# Vision models, with what their configurations need beside or in place of the fields above.
VISION: dict[str, dict[str, Any]] = {
    "vit": {},
    "deit": {},
    "beit": {},
    "dinov2": {},
    "data2vec-vision": {},
    "vit_mae": {},
    "vit_msn": {},
    "yolos": {"image_size": [32, 32]},
    "ijepa": {},
    "swin": {
        "image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4,
    },
    "swinv2": {
        "image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4,
    },
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "convnextv2": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "regnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8},
    "bit": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_groups": 4},
    "mobilenet_v1": {"image_size": 32, "depth_multiplier": 0.25},
    "mobilenet_v2": {"image_size": 32, "depth_multiplier": 0.25},
    "mobilevit": {"image_size": 32},
    "mobilevitv2": {"image_size": 64},
    "efficientnet": {"image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
    "poolformer": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]},
    "focalnet": {"image_size": 32, "embed_dim": 8, "depths": [1, 1], "hidden_sizes": [8, 16], "focal_levels": [2, 2],
                 "focal_windows": [3, 3]},
    "segformer": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2]},
    "pvt": {
        "image_size": 32, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2],
    },
    "pvt_v2": {
        "image_size": 32, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2],
    },
    "levit": {"image_size": 64, "hidden_sizes": [16, 24, 32], "depths": [1, 1, 1], "num_attention_heads": [2, 2, 2],
              "key_dim": [8, 8, 8]},
    "hiera": {"image_size": [32, 32], "patch_size": [7, 7], "embed_dim": 8, "depths": [1, 1, 1, 1],
              "num_heads": [1, 1, 2, 2], "mlp_ratio": 2.0},
}  # fmt: skip
OWN_FIELDS = {"swin", "swinv2", "convnext", "convnextv2", "resnet", "regnet", "bit", "mobilenet_v1", "mobilenet_v2",
              "mobilevit", "mobilevitv2", "efficientnet", "poolformer", "focalnet", "segformer", "pvt", "pvt_v2",
              "levit", "hiera"}  # fmt: skip


def build(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A model with random weights, and arguments by name as users give them."""
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    cls = CONFIG_MAPPING[name]
    fields = {} if name in OWN_FIELDS else {key: value for key, value in SMALL.items() if hasattr(cls(), key)}
    config = cls(**{**fields, **VISION.get(name, {})})
    torch.manual_seed(0)
    model = (AutoModelForCausalLM if name in CAUSAL else AutoModel).from_config(config).eval()
    if "pixel_values" in inspect.signature(model.forward).parameters:
        size = getattr(config, "image_size", 32) or 32
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return model, {"pixel_values": torch.randn(1, 3, height, width)}
    arguments = {"input_ids": torch.randint(3, 90, (2, 16))}
    if name in PAIRS:
        arguments["decoder_input_ids"] = torch.randint(3, 90, (2, 8))
    return model, arguments


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in what a model returns, those of caches included."""
    if isinstance(value, torch.Tensor):
        return [value]
    if hasattr(value, "to_tuple"):
        return tensors(value.to_tuple())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    if isinstance(value, dict):
        return tensors(list(value.values()))
    layers = getattr(value, "layers", ())
    return [
        tensor for layer in layers for tensor in tensors([getattr(layer, "keys", None), getattr(layer, "values", None)])
    ]
