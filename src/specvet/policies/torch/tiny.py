"""Tiny random models of every family that the `torch` policy runs: real architectures, a few layers, a byte vocabulary.

They answer nothing sensible; what they are for is everything else: caches, positions, pictures, log-probs. Weights are
drawn wider than a model is initialised for training, so that one changed token or pixel clearly moves the output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from specvet.chat import Vocabulary
from specvet.chat.formats import FAMILIES
from specvet.chat.tiny import tiny_vocabulary, write_tiny
from specvet.policies.tokens import PolicyError

stock: Any = transformers  # parts of it have no types
HIDDEN = 64
SPREAD = 0.15
"""Standard deviation of the random weights; the usual 0.02 makes every token about as likely as any other."""


def tiny_model(family: str = "qwen2_5_vl", seed: int = 0, texts: tuple[str, ...] = ()) -> Any:
    """A random `…ForConditionalGeneration` of a chat format's family, float32 on the CPU, the same for the same seed.

    Its vocabulary is learnt from `texts`, where they are given (see `specvet.chat.tiny`). Raises PolicyError for a
    family that is not known.
    """
    if family not in FAMILIES:
        raise PolicyError(f"there is no chat format {family!r}; known are {', '.join(FAMILIES)}", fatal=True)
    config = tiny_config(family, tiny_vocabulary(family, texts))
    return random_model(config, seed)


def random_model(config: Any, seed: int) -> Any:
    """A model of this configuration with random weights; leaves torch's own random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = stock.AutoModelForImageTextToText.from_config(config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):  # stock initialisation leaves them at 0, where a forgotten bias goes unseen
                    parameter.uniform_(-0.1, 0.1)
    model.generation_config = generation_config(config)
    return model.eval()


def save_tiny(folder: str | Path, family: str = "qwen2_5_vl", seed: int = 0, texts: tuple[str, ...] = ()) -> Path:
    """A tiny model as a model folder: weights, configuration, tokenizer, processor settings, chat template.

    `AutoModelForImageTextToText`, `AutoProcessor`, `transformers serve` and `open_policy` load it.
    """
    folder = Path(folder)
    tiny_model(family, seed, texts).save_pretrained(folder)
    write_tiny(family, folder, tiny_vocabulary(family, texts))
    return folder


def tiny_config(family: str, vocabulary: Vocabulary) -> Any:
    """The configuration of a tiny model: 2 layers (4 for the hybrid family), 4 heads, 2 key-value heads."""
    build = {"qwen2_5_vl": _qwen2_5_vl, "qwen3_vl": _qwen3_vl, "qwen3_5": _qwen3_5}[FAMILIES[family].template]
    pad, end = vocabulary.need("<|endoftext|>"), vocabulary.need("<|im_end|>")
    ids: dict[str, Any] = {
        "image_token_id": vocabulary.need("<|image_pad|>"),
        "video_token_id": vocabulary.need("<|video_pad|>"),
        "vision_start_token_id": vocabulary.need("<|vision_start|>"),
        "vision_end_token_id": vocabulary.need("<|vision_end|>"),
    }
    text = {
        "vocab_size": vocabulary.size,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "initializer_range": SPREAD,
        "bos_token_id": pad,
        "eos_token_id": end,
        "pad_token_id": pad,
        "tie_word_embeddings": False,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": HIDDEN,
        "initializer_range": SPREAD,
    }
    config = build(text, vision, ids)
    config.tie_word_embeddings = False
    return config


def generation_config(config: Any) -> Any:
    """What `generate` does unasked: greedy, ending with the format's end token."""
    text = config.text_config
    return stock.GenerationConfig(
        bos_token_id=text.bos_token_id, eos_token_id=text.eos_token_id, pad_token_id=text.pad_token_id, do_sample=False
    )


# `mrope_section` counts frequencies, so it sums to half of what is rotated of a head (here 16 wide).


def _qwen2_5_vl(text: dict[str, Any], vision: dict[str, Any], ids: dict[str, Any]) -> Any:
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
    vision |= {"patch_size": 14, "window_size": 112, "fullatt_block_indexes": [1]}
    return transformers.Qwen2_5_VLConfig(text_config=text | {"rope_parameters": rope}, vision_config=vision, **ids)


def _qwen3_vl(text: dict[str, Any], vision: dict[str, Any], ids: dict[str, Any]) -> Any:
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    vision |= {"patch_size": 16, "num_position_embeddings": 256, "deepstack_visual_indexes": [0]}
    text |= {"head_dim": 16, "rope_parameters": rope}
    return transformers.Qwen3VLConfig(text_config=text, vision_config=vision, **ids)


def _qwen3_5(text: dict[str, Any], vision: dict[str, Any], ids: dict[str, Any]) -> Any:
    rope = {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
        "partial_rotary_factor": 0.5,
    }
    vision |= {"patch_size": 16, "num_position_embeddings": 256}
    text |= {
        "num_hidden_layers": 4,  # three of linear attention, then one of full attention
        "head_dim": 16,
        "rope_parameters": rope,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
    }
    return transformers.Qwen3_5Config(text_config=text, vision_config=vision, **ids)
