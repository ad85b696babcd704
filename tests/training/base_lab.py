"""A small model of nano's make, for tests of base training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from bumps_lab import messages

from specvet.chat import Vocabulary, chat_format
from specvet.chat.learning import learn_vocabulary
from specvet.chat.qwen import QwenFormat
from specvet.policies.torch.nano import nano_config
from specvet.policies.torch.tiny import generation_config
from specvet.training.base.folder import save_model

stock: Any = transformers


def vocabulary() -> Vocabulary:
    texts = [message.text for number in range(4) for message in messages(number)]
    return Vocabulary(learn_vocabulary(texts, size=400))


def bump_format() -> QwenFormat:
    return chat_format("qwen2_5_vl", vocabulary())


def small_model(words: Vocabulary) -> Any:
    """Two layers of each kind, 64 wide; biases and norms are not those of a new model, so that one forgotten shows."""
    config = nano_config(words)
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 64, 96, 2
    text.num_attention_heads, text.num_key_value_heads, text.layer_types = 4, 2, text.layer_types[:2]
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [2, 3, 3]}
    vision.hidden_size, vision.intermediate_size, vision.out_hidden_size = 64, 96, 64
    vision.depth, vision.num_heads, vision.fullatt_block_indexes = 2, 2, [0, 1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = stock.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.03 * torch.randn_like(p))
    model.generation_config = generation_config(config)
    return model.eval()


def small_folder(folder: Path) -> Path:
    """The small model as a model folder."""
    words = vocabulary()
    save_model(folder, small_model(words), words, {"stage": "test"})
    return folder
