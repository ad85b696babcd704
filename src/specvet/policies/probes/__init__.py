"""Probes: whether a backend sees what it is shown, counts what it is sent and repeats what it says.

    report = await probe(policy, fast=True)
    report.ok, report.to_dict()

A model that never gets its pictures answers fluently and trains smoothly; nothing but a probe tells. Each asks the
policy itself, on the path that real questions take, with pictures made here. What a policy cannot be asked is
`skipped`, with the reason.

| probe | asks whether | fast |
|---|---|---|
| `token_count` | the backend's count of a prompt is the ledger's, with 0, 1 and 3 (fast: 2) pictures | yes |
| `determinism` | the same prompt gives the same greedy answer | yes |
| `swap_image` | another picture gives other log-probs (without log-probs: other words) | yes |
| `later_image` | another picture in a tool's reply does, too | yes |
| `exact_ids` | an unusual spelling in ids is not spelt anew | |
| `alpha` | a picture with alpha is seen as on white | |
| `localisation` | a red square elsewhere, and a mirrored picture, give other log-probs | |
| `orientation` | the model says on which side the square is; skipped for one that cannot say | |
| `seed` | a seed repeats a sample, and another seed gives another | |
| `n` | n = 3 gives three | |
| `recomputed_logprobs` | log-probs are those of the model read afresh (torch) | torch |
| `prefix` | the same with a cache kept from the turn before, which was used (torch) | torch |
| `adapter` | the adapter changes log-probs against the base model; skipped while every B is 0 | torch, with one |

For a text policy, whose ledger nobody can count, `token_count` asks whether each picture costs the same.

Requests: at most 7 fast (9 of torch) and 26 in full, of 16 tokens each (48 of a text policy), with at most three
pictures of 448 x 224 pixels. That is what a start of a run, or `specvet doctor`, costs on a paid service.
"""

from specvet.policies.probes.report import Probe, ProbeReport
from specvet.policies.probes.running import fast_probes, probe
from specvet.policies.probes.tokens import base_answer

__all__ = ["Probe", "ProbeReport", "base_answer", "fast_probes", "probe"]
