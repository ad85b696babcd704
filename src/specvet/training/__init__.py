"""Training: datums in, better weights out. Cold-start SFT and multi-turn GRPO over one `Trainer` protocol.

`sft` and `grpo` are the two loops; `trainer` says what a backend does; `torch`, `trio` and `tinker` are the backends.
"""
