"""What each kernel of a network loses with several threads, beside an equal share of what it takes with one.

    python benchmarks/sharing.py mobilenet_v2 --threads 2 --rounds 20 --json result.json

The model is compiled for one thread and for several. Both take turns, and each kernel's time is the lower quartile of
all. A kernel loses where its parts are few or unequal, where it reads what another core wrote, and where a thread comes
late; the time with several threads, less that with one divided by their number, is what there is to gain.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import eutectic
from eutectic.runtime.executable import KernelTime
from eutectic.testing.models import MODELS
from machine import describe, usable_cpus

CALLS = 8  # of a turn; the first ones wake the threads, which a quartile leaves out


@dataclass(frozen=True)
class Loss:
    """A kernel with one thread and with several.

    Attributes:
        kernel: Name.
        alone_us: Microseconds with one thread.
        shared_us: Microseconds with several.
        lost_us: What the latter are more than an equal share of the former.
    """

    kernel: str
    alone_us: float
    shared_us: float
    lost_us: float


def losses(model: Any, inputs: Sequence[Any], threads: int, rounds: int) -> list[Loss]:
    """Every kernel of a network, in the order of the calls."""
    variants = {count: eutectic.compile(model, tuple(inputs), threads=count) for count in (1, threads)}
    calls: dict[int, list[list[KernelTime]]] = {count: [] for count in variants}
    for _ in range(rounds):
        for count, variant in variants.items():
            for _ in range(CALLS):
                calls[count].append(variant.profile(*inputs))
    names = [time.name for time in calls[1][0]]
    alone, shared = ([_lower_quartile(times) for times in zip(*calls[count], strict=True)] for count in (1, threads))
    return [
        Loss(name, 1e6 * one, 1e6 * several, 1e6 * (several - one / threads))
        for name, one, several in zip(names, alone, shared, strict=True)
    ]


def _lower_quartile(times: Sequence[KernelTime]) -> float:
    return statistics.quantiles([time.seconds for time in times], n=4)[0]


def _print(found: Sequence[Loss]) -> None:
    for loss in found:
        ratio = loss.alone_us / loss.shared_us
        print(
            f"{loss.kernel:56} {loss.alone_us:9.1f} us {loss.shared_us:9.1f} us {ratio:5.2f}x {loss.lost_us:8.1f} lost"
        )
    alone, shared, lost = (
        sum(getattr(loss, field) for loss in found) for field in ("alone_us", "shared_us", "lost_us")
    )
    print(f"{'all':56} {alone:9.1f} us {shared:9.1f} us {alone / shared:5.2f}x {lost:8.1f} lost")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="2 or more")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each")
    parser.add_argument("--json", metavar="FILE", help="write the result here")
    args = parser.parse_args(argv)
    if args.threads < 2:
        parser.error(f"--threads {args.threads}: expected 2 or more, as it is compared with 1")
    warnings.simplefilter("ignore")
    model, inputs = MODELS[args.model].build()
    found = losses(model, inputs, args.threads, args.rounds)
    _print(found)
    if args.json:
        result = {"benchmark": "sharing", "machine": describe(args.threads), "model": args.model}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({**result, "kernels": [asdict(loss) for loss in found]}, file, indent=2)


if __name__ == "__main__":
    main()
