"""Training of specialists: question files in, folders for `specvet.policies.specialists` out."""

from specvet.training.specialists.training import Report, train_specialist

__all__ = ["Report", "train_specialist"]
