"""How often is a verdict wrong? Simulated worlds whose truth is known and, with --real, planted variants.

Simulation: answers and turns are drawn in known worlds and judged by the report's own code. Each verdict on a draw is
one of PASS, FAIL and UNDECIDED, and the world says whether the gate is met, violated, or whether the truth stands
exactly at the bound. A world exactly at a bound counts on both sides: 2.5 % of PASS and of FAIL are meant there.

    python benchmarks/decision_truth.py [--draws 10000] [--jobs 2] [--family "several sets" …]

`--draws` are those of variants in each family of worlds; worlds at a bound get four times the draws of the others. The
largest of many shares is large by luck too: where over 4 % of a world's verdicts were wrong, their shares are computed
if its items pass or fail and stand alone, and else it is drawn 20,000 times anew; then these alone count. The last line
is JSON, shares of draws:
  wrong_pass  the largest share of any world, variant and gate: PASS where the gate is violated or exactly at its bound
  wrong_fail  the largest share, likewise: FAIL where the gate is met or exactly at its bound
  undecided   of all draws of all worlds
Shares over all draws in which a verdict could be wrong stand above it. The exit code is 1 when the largest is above 5 %
with 95 % confidence.

    python benchmarks/decision_truth.py --real [--base artifacts/base] [--keep FOLDER]

makes real variants in a clone of this project (what is committed) and judges them through the real stages: a copy of
fp16 must PASS, round-to-nearest at 3 and 2 bits must FAIL, and three corrupted artifacts must be rejected. The gate is
a quality drop of at most 2 points at 95 % confidence on the 204 items of support-desk. `--base` is the folder of a base
model that was made before, without it this project's own; where there is none params.yaml says where it comes from. The
last line is JSON; the exit code is 1 when a verdict is not as expected.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import _truth_exact
import _truth_real
import _truth_simulation
import _truth_worlds
from _truth_simulation import AGAIN, ALLOWED, SUSPECT, Line
from _truth_worlds import World

from pipeline import checkpoint, store
from pipeline.records import Verdict


def main() -> None:
    families = list(dict.fromkeys(world.family for world in _truth_worlds.worlds()))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000, help="of each family")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--family", choices=families, nargs="+", default=families)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--base", type=Path, help="folder of a base model that was made before")
    parser.add_argument("--keep", type=Path, help="folder for the clone, which is then not removed")
    asked = parser.parse_args()
    sys.exit(real(asked.base, asked.keep) if asked.real else simulate(asked.family, asked.draws, asked.jobs))


def simulate(families: Sequence[str], draws: int, jobs: int) -> int:
    start = time.monotonic()
    worlds = [world for world in _truth_worlds.worlds() if world.family in families]
    print(f"{'world':80} {'gate':12} {'truth':12}  draws  PASS  FAIL  open %")
    lines = drawn(_truth_simulation.allot(worlds, draws), jobs, seed=0)
    again = _truth_simulation.suspects(lines)
    if again:
        print(f"again, since over {100 * SUSPECT:g} % were wrong, which may be by luck:")
        lines = [line for line in lines if line.world not in again] + looked_at_again(again, jobs)
    print(f"\n{'family':20} {'wrong PASS, %':>24} {'wrong FAIL, %':>24} {'open, %':>8}")
    for family in families:
        part = _truth_simulation.summarize([line for line in lines if line.world.family == family])
        wrong = [
            f"{100 * worst:.1f} at worst, {100 * pooled:.1f}"
            for worst, pooled in (
                (part.wrong_pass, part.wrong_pass_pooled),
                (part.wrong_fail, part.wrong_fail_pooled),
            )
        ]
        print(f"{family:20} {wrong[0]:>24} {wrong[1]:>24} {100 * part.undecided:8.1f}")
    found = _truth_simulation.summarize(lines)
    surely = [
        worst(lines, Verdict.PASS, lambda line: line.wrong_pass),
        worst(lines, Verdict.FAIL, lambda line: line.wrong_fail),
    ]
    print(
        f"of all draws in which it could be wrong: PASS {100 * found.wrong_pass_pooled:.2f} %, "
        f"FAIL {100 * found.wrong_fail_pooled:.2f} %; {sum(line.draws for line in lines)} verdicts in "
        f"{time.monotonic() - start:.0f} s"
    )
    names = ("wrong_pass", "wrong_fail", "undecided")
    print(json.dumps({name: round(getattr(found, name), 4) for name in names}))
    return int(max(surely) > ALLOWED)


def looked_at_again(worlds: Sequence[World], jobs: int) -> list[Line]:
    """Computed where that can be done, and else drawn anew."""
    found = {world: _truth_exact.lines(world) for world in worlds}
    computed = [line for lines in found.values() for line in lines or ()]
    for line in computed:
        print(row(line), flush=True)
    return computed + drawn({world: AGAIN for world, lines in found.items() if lines is None}, jobs, seed=1)


def drawn(draws: Mapping[World, int], jobs: int, seed: int) -> list[Line]:
    found = []
    for line in _truth_simulation.run(draws, jobs, seed):
        found.append(line)
        print(row(line), flush=True)
    return found


def row(line: Line) -> str:
    name = f"{line.world.family}: {line.world.name}"
    name += f": {line.variant}" if len(line.world.variants) > 1 else ""
    shares = " ".join(f"{100 * line.share(verdict):5.1f}" for verdict in Verdict)
    return f"{name:80} {line.gate:12} {line.truth:12} {'exact' if line.exact else line.draws:>6} {shares}"


def worst(lines: Sequence[Line], verdict: Verdict, wrong: Callable[[Line], float | None]) -> float:
    """Say in which world a verdict was wrong most often, and how well that share is known; returns its low end."""
    possible = [line for line in lines if wrong(line) is not None]
    if not possible:
        return 0.0
    found = max(possible, key=lambda line: line.share(verdict))
    low, high = _truth_simulation.uncertainty(found, verdict)
    print(f"most wrong {verdict}, {100 * low:.2f} to {100 * high:.2f} % with 95 % confidence: {row(found)}")
    return low


def real(base: Path | None, keep: Path | None) -> int:
    start = time.monotonic()
    made = _truth_real.ROOT / store.BASE
    base = base or (made if checkpoint.is_complete(made) else None)
    with tempfile.TemporaryDirectory(prefix="decision-truth-") as folder:
        wrong = _truth_real.judge(keep or Path(folder) / "project", base)
    for problem in wrong:
        print(f"NOT AS EXPECTED: {problem}")
    print(json.dumps({"as_expected": not wrong, "wrong": wrong, "seconds": round(time.monotonic() - start)}))
    return int(bool(wrong))


if __name__ == "__main__":
    main()
