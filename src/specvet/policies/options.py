"""What the command line says of a model, for the policies that have one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """One set of options for all model policies; each says in an error which of them it cannot use."""

    model: str | None = None
    """Folder, hub id, or the name a server knows it by; None lets `torch` make a tiny random one."""
    adapter: str | None = None
    """LoRA folder (torch), or the sampler weights' path (`trio://…`, `tinker://…`)."""
    revision: str | None = None
    """Of a hub id."""
    format: str | None = None
    """Chat format; None takes the model family's own."""
    tokenizer: str | None = None
    """Folder or file of the tokenizer where the model is remote; None looks for it under `model`."""
    base_url: str | None = None
    """Of a server."""
    more_urls: tuple[str, ...] = ()
    """Of further servers that have the same model, over which requests are spread."""
    device: str = "auto"
    dtype: str = "auto"
    branches: int = 16
    """Sequences that are sampled at a time."""
    context: int = 16_384
    """Tokens a trajectory may have, pictures included."""
    tools: str = "tools"
    """How an OpenAI-compatible server is told of the tool: `tools` (its own tool calls) or `text` (our chat format)."""
    tool_images: str = "auto"
    """Where such a server is sent a tool's pictures: in the `tool` message, in a `user` message after it, or `auto`."""
    timeout_s: float = 600.0
    """Of one request."""
    seed: int = 0
    """Of a random model's weights."""
    texts: tuple[str, ...] = ()
    """Of a tiny random model: what its vocabulary is learnt from, see `specvet.chat.tiny`."""
