"""fp16 against itself: does the interval of the paired speed-up hold 1.00, on a quiet machine and beside bursts?

Each trial is measured by the code of the benchmark stage, with less to do: 5 turns of 16 tokens in each pair of fresh
processes, at least three pairs, more until the 95 % interval is within 3 % of the ratio or 45 s are spent. Both sides
are the same artifact, so the truth is 1.00 and every trial whose interval leaves it out is a miss. Beside it the naive
way, in 10 trials: all requests of one process, then all of another, mean ± standard deviation.

    python benchmarks/paired_noise.py [--trials 20] [--only quiet | bursts]

Run it in a project folder whose artifact `fp16` is made (`dvc repro quantize@fp16 prompts`). The last line is JSON:
`*_ratio` is the median over the trials, `*_half_width` too, `*_covered` the share of trials whose interval holds 1.00,
`naive_bursts_error` the median of |ratio - 1| of the naive way beside bursts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import _pairs

from pipeline import params, processes
from pipeline.metrics import latency, pairing
from pipeline.params import Params
from pipeline.readings import Alternation, Side

PAIRS = 5
OUTPUT_TOKENS = 16
BUDGET_S = 45.0
NAIVE_TRIALS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--only", choices=["quiet", "bursts"])
    asked = parser.parse_args()
    processes.exit_on_signals()
    settings = params.load()
    found: dict[str, float | None] = {}
    if asked.only != "bursts":
        found |= series("quiet", settings, asked.trials)
    if asked.only != "quiet":
        with bursts():
            found |= series("bursts", settings, asked.trials)
            found["naive_bursts_error"] = naive(settings, min(asked.trials, NAIVE_TRIALS))
    names = [f"{condition}_{what}" for condition in ("quiet", "bursts") for what in ("ratio", "half_width", "covered")]
    print(json.dumps({name: found.get(name) for name in [*names, "naive_bursts_error"]}))


def series(condition: str, settings: Params, trials: int) -> dict[str, float | None]:
    """`trials` whole measurements of the same artifact against itself."""
    level, process = _pairs.level(settings, OUTPUT_TOKENS, PAIRS), _pairs.as_in_params(settings)
    ratios, widths, covered = [], [], []
    for trial in range(trials):
        start = time.monotonic()
        sides, enough = dict.fromkeys(Side, process), _pairs.precise_or_spent(settings, BUDGET_S)
        pairs = _pairs.measure(settings, sides, level, trial, enough=enough)
        speedup = _pairs.speedup(pairs, settings)
        low, high, width = speedup.low.value, speedup.high.value, speedup.half_width().value
        if low is None or high is None or width is None:
            sys.exit(f"no interval: {speedup.low.reason}")
        ratios.append(speedup.ratio)
        widths.append(width)
        covered.append(low <= 1 <= high)
        cost = pairing.decode_cost_ratio(pairs, settings.seed)
        print(
            f"{condition} {trial + 1:2}: {_pairs.shown(speedup)}{'' if covered[-1] else ' MISSES 1'}, "
            f"CPU time {'unknown' if isinstance(cost, str) else f'{cost.ratio:.3f}'}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return {
        f"{condition}_ratio": round(statistics.median(ratios), 4),
        f"{condition}_half_width": round(statistics.median(widths), 4),
        f"{condition}_covered": round(sum(covered) / len(covered), 4),
    }


def naive(settings: Params, trials: int) -> float:
    """All requests of one process and then all of another; the median error of the ratio of their means."""
    level, process = _pairs.level(settings, OUTPUT_TOKENS, PAIRS), _pairs.as_in_params(settings)
    errors = []
    for trial in range(trials):
        sides = dict.fromkeys(Side, process)
        pairs = _pairs.measure(
            settings, sides, level, trial, alternation=Alternation.BLOCKS, enough=lambda pairs, processes, spent_s: True
        )
        ours = [latency.decode_tokens_per_s(pair.variant) for pair in pairs]
        theirs = [latency.decode_tokens_per_s(pair.baseline) for pair in pairs if pair.baseline]
        ratio = statistics.mean(ours) / statistics.mean(theirs)
        print(f"naive {trial + 1:2}: {ratio:.3f}, {shown(ours)} against {shown(theirs)} tokens/s", flush=True)
        errors.append(abs(ratio - 1))
    return round(statistics.median(errors), 4)


def shown(rates: Sequence[float]) -> str:
    return f"{statistics.mean(rates):.1f} ± {statistics.stdev(rates):.1f}"


@contextlib.contextmanager
def bursts() -> Iterator[None]:
    """A neighbour that multiplies matrices on all cores for 0.2 to 2 s, then rests for 0.2 to 3 s, and so on."""
    neighbour = subprocess.Popen([sys.executable, str(Path(__file__).with_name("_bursts.py"))])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


if __name__ == "__main__":
    main()
