"""How long the numbers of a cell take: `measure` and `compare` on made-up outcomes.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/evaluation_numbers.py --json

CPU seconds (of all threads) for 6,754 questions, as many as the published test set has, and 2,000 replicates: of the
metadata-only trees, which every policy on a set shares; of everything else that `measure` gives; of a paired
comparison. Outcomes are drawn by lot: five tasks, 17 % members, a tenth of the objects asked twice, ties in p_yes. The
last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import resource
import sys
import time
from collections.abc import Callable

import numpy

from specvet.evaluation import measures
from specvet.evaluation.metadata_only import metadata_only
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.paired import compare

TASKS = ("cc", "cv", "gm", "ss", "wd")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("-n", type=int, default=6_754, help="questions")
    parser.add_argument("--replicates", type=int, default=2_000)
    options = parser.parse_args()
    first, second = outcomes(options.n, 1), outcomes(options.n, 2)
    result: dict[str, object] = {"questions": options.n, "replicates": options.replicates}
    result["metadata_only_s"] = seconds(lambda: metadata_only(first))
    # Kept from here on, so that the rest is what is left of `measure`.
    result["measure_s"] = seconds(
        lambda: measures.measure(first, replicates=options.replicates, reference="LAMOST", unseen=("wd",))
    )
    result["compare_s"] = seconds(lambda: compare(first, second, replicates=options.replicates))
    result["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024)
    result |= {"numpy": numpy.__version__, "python": platform.python_version(), "platform": platform.platform()}
    if not options.json:
        for key, value in result.items():
            print(f"{key:20} {value}", file=sys.stderr)
    print(json.dumps(result))
    return 0


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    begun = time.process_time()
    work()
    return round(time.process_time() - begun, 2)


def outcomes(n: int, policy: int) -> list[Outcome]:
    """The same questions whatever the policy; its answers by lot."""
    world, luck = random.Random(0), random.Random(policy)
    return [outcome(i, world, luck, n) for i in range(n)]


def outcome(i: int, world: random.Random, luck: random.Random, n: int) -> Outcome:
    truth = "YES" if world.random() < 0.17 else "NO"
    p = round(1 / (1 + math.exp(-luck.gauss(1.5 if truth == "YES" else -1.5, 1.5))), 3)
    said = None if luck.random() < 0.03 else "YES" if p >= 0.5 else "NO"
    snr = world.uniform(3, 60)
    return Outcome(
        id=f"q{i}",
        task=TASKS[i % 5],
        truth=truth,
        said=said,
        verdict=said or "FAILED",
        p_yes=p,
        object_id=f"o{i if world.random() < 0.9 else world.randrange(n)}",
        format_ok=said is not None,
        stop="answered" if said else "max_turns",
        calls=luck.randrange(5),
        turns=2,
        seconds=luck.random(),
        survey=world.choice(("LAMOST", "SDSS", "DESI")),
        layout="made up",
        snr=snr,
        kind="member" if truth == "YES" else world.choice(("K dwarf", "M dwarf", "quasar", "A star")),
        windows=((6_500.0, 6_650.0),) * luck.randrange(3),
        metadata={"n_pix": float(world.randrange(3_600, 4_000)), "snr": snr, "z": world.gauss(0, 1e-4)},
    )


if __name__ == "__main__":
    sys.exit(main())
