"""What the tasks room says when a task cannot be had."""

from __future__ import annotations


class TaskError(ValueError):
    """A task file or name that cannot be used. The message names the file, the field, what is wrong and what to do.

    Several mistakes in one file are told together, one a line.
    """
