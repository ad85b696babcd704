"""SimVI: a SIMULATED benchmark in the published schema and sizes, with cold-start trajectories.

plan (who is asked about) → making (spectra, figures, trajectories) → building (files, then `published` prepares them)
"""
