"""specvet: vet rare-star candidates from their spectra with an agent that looks, zooms and gives its evidence."""

__version__ = "0.1.0"
