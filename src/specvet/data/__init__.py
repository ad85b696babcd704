"""Data to learn from and to be asked about. In come files: questions, demonstrations, spectra; out go what a rollout
takes (`asking`) and what a trainer takes (`demonstrations`), each with the rows that cannot be used and why.

`toy` simulates a small set of both, to try things on.
"""
