"""A made-up experiment of many short trials, run in a process that can be killed."""

import sys
import time
from pathlib import Path
from typing import Any

from reproduction.experiment import Experiment, Plan
from reproduction.trial import Trial

from nopg.randomness import Seed
from reproduction import runner

N_TRIALS = 8


def trials(plan: Plan) -> list[Trial]:
    return [
        Trial(experiment="tiny", task="t", method="NOPG-D", size=1, seed=seed)
        for seed in plan.seeds_or(N_TRIALS)
    ]


def run(trial: Trial) -> dict[str, Any]:
    time.sleep(0.15)
    return {"last": float(Seed(trial.seed).numpy("draw").standard_normal())}


EXPERIMENT = Experiment(name="tiny", title="Tiny", trials=trials, runner_of=lambda trial: run)


def main(out: Path) -> None:
    """Run it all; a worker finds an experiment by name, so that is made known."""
    vars(runner)["find"] = lambda name: EXPERIMENT
    runner.reproduce(EXPERIMENT, Plan(), out=out, progress=False, command="tiny")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
