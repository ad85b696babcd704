"""A pipeline: the stages from nothing to a model, each one of the program's own commands, run in the order of what they
need, and not again once they are done."""
