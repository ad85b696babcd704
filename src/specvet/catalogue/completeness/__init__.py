"""How complete is a run? SIMULATED members of a class, put into the noise of the run's own spectra.

In come hosts, the run's own spectra by place and S/N; out come `Injection`s (what is to be put where), the spectra made
of them, and a figure of what was recovered. `specvet.vetting.completeness` vets them as the run was vetted, and counts.
"""

from specvet.catalogue.completeness.injecting import injected
from specvet.catalogue.completeness.members import NoMembersError, members_of
from specvet.catalogue.completeness.plan import Host, Injection, plan

__all__ = ["Host", "Injection", "NoMembersError", "injected", "members_of", "plan"]
