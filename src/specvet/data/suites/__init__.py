"""Suites: SIMULATED question sets that ask what SimVI does not, by other surveys and about other classes.

plan (who is asked what) → making (spectra, native files or arrays) → building (the folder)

`cross-survey` shows the same objects as LAMOST, SDSS and DESI see them and asks about the five built-in tasks;
`cross-task` shows LAMOST spectra and asks about classes that no built-in task asks about (`classes`).
"""
