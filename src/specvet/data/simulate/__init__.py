"""A simulated survey: sources from parametric physics, seen through the air and a spectrograph, in native layouts.

    kinds.make("wd.DA", rng) → Source → templates (optional) → observe(source, "lamost", rng) → Observed → layouts

Everything that comes out is labelled SIMULATED. numpy and scipy alone are needed, but for writing FITS (astropy).
"""
