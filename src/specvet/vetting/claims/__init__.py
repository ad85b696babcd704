"""Claims: what a trajectory says that it saw, held against what the spectrum measures.

    trajectory → texts → claims (feature, polarity, number) → measured again → supported, contradicted, not measurable

In come a trajectory's words and its spectrum; out come `Claim`s, each with what was measured and why. Only sentences
that report are read: plans, questions and hedged guesses claim nothing.
"""

from specvet.vetting.claims.checking import check_claims, check_decision
from specvet.vetting.claims.claim import Claim, ClaimCounts, Says, State, counted

__all__ = ["Claim", "ClaimCounts", "Says", "State", "check_claims", "check_decision", "counted"]
