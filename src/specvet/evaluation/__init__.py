"""Evaluation: policies × seeds × question sets in; raw trajectories, numbers with intervals, tables and plots out.

Every number is made of `Outcome`s, which are read from raw trajectories by a named rule, with no model; `verify` makes
all of them again. Nothing here imports a model's libraries.
"""
