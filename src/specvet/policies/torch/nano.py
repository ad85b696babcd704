"""The shape of `nano`: a Qwen2.5-VL of under 12 million weights, small enough for a laptop's processor.

Text: 5 layers, 384 wide, 6 heads of 64 on 2 of keys and values, tied embeddings of 1,536 ids. Pictures: 5 layers, 256
wide, 4 heads; every layer attends to the whole picture, which has at most some 250 patches. `mini` is the same with two
layers of each, 64 wide: it learns little, and goes through every stage of training on a laptop.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import torch
import transformers

from specvet.chat import Vocabulary
from specvet.chat.tiny import write_tiny
from specvet.policies.manner import FILE, NANO
from specvet.policies.torch.loading import quiet
from specvet.policies.torch.tiny import generation_config

MAX_IDS = 1_536
"""Rows of the embedding; the vocabulary has at most so many ids."""
SHARD = "15MB"
"""Largest file of weights: files of a code repository stay small."""


Shape = Literal["nano", "mini"]


def nano_config(vocabulary: Vocabulary, shape: Shape = "nano") -> Any:
    """The stock configuration. Raises ValueError for a vocabulary of more than `MAX_IDS` ids."""
    if vocabulary.size > MAX_IDS:
        raise ValueError(f"a vocabulary of {vocabulary.size} ids; nano has room for {MAX_IDS}")
    pad, end = vocabulary.need("<|endoftext|>"), vocabulary.need("<|im_end|>")
    text: dict[str, Any] = {
        "vocab_size": MAX_IDS,
        "hidden_size": 384,
        "intermediate_size": 640,
        "num_hidden_layers": 5,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4_096,
        "initializer_range": 0.02,
        "bos_token_id": pad,
        "eos_token_id": end,
        "pad_token_id": pad,
        "tie_word_embeddings": True,
        # The sections count frequencies (time, height, width), so that they sum to half a head.
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [8, 12, 12]},
    }
    vision: dict[str, Any] = {
        "depth": 5,
        "hidden_size": 256,
        "intermediate_size": 640,
        "num_heads": 4,
        "out_hidden_size": 384,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": list(range(5)),
        "initializer_range": 0.02,
    }
    if shape == "mini":
        text |= {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
        text |= {"rope_parameters": {**text["rope_parameters"], "mrope_section": [2, 3, 3]}}
        vision |= {"depth": 2, "hidden_size": 64, "intermediate_size": 96, "num_heads": 2, "out_hidden_size": 64}
        vision |= {"fullatt_block_indexes": [0, 1]}
    return transformers.Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=True,
        image_token_id=vocabulary.need("<|image_pad|>"),
        video_token_id=vocabulary.need("<|video_pad|>"),
        vision_start_token_id=vocabulary.need("<|vision_start|>"),
        vision_end_token_id=vocabulary.need("<|vision_end|>"),
    )


def nano_model(vocabulary: Vocabulary, seed: int = 0, shape: Shape = "nano") -> Any:
    """A random model of that shape, float32, on the CPU."""
    config = nano_config(vocabulary, shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stock: Any = transformers  # parts of it have no types
        model = stock.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.generation_config = generation_config(config)
    return model.eval()


def save_nano(folder: str | Path, model: Any, vocabulary: Vocabulary) -> Path:
    """A model of that shape as a folder that the torch and the embedded policy, transformers and its server load:
    weights in bfloat16, configuration, tokenizer, processor settings, chat template, and how it is asked.

    Leaves the model as it is. A release also has a manifest, which `specvet.policies.catalogue` writes.
    """
    folder = Path(folder)
    with quiet():
        deepcopy(model).to(torch.bfloat16).save_pretrained(folder, max_shard_size=SHARD)
    write_tiny("qwen2_5_vl", folder, vocabulary)
    manner = NANO.model_dump(mode="json")
    (folder / FILE).write_text(json.dumps({"manner": manner}, indent=1) + "\n", encoding="utf-8")
    return folder
