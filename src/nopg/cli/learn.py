"""`nopg learn`: a data file in, a policy found by search out, nothing to tune."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from nopg.cli.columns import SOURCE, Columns, with_columns


@with_columns
def learn(
    source: Annotated[str, typer.Argument(help=SOURCE)],
    columns: Columns,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML with the table model, and initial_states under fit."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the run; must not hold one yet.")
    ] = Path("runs/latest"),
    gamma: Annotated[
        float | None, typer.Option(help="Discount factor, 0.99 by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every draw.")] = None,
) -> None:
    """Fit models of the system, plan and refine policies in them, keep the best.

    Nothing to tune, and the usual choice. `nopg fit` is the paper's algorithm, which
    learns no model of the system.
    """
    from nopg.algorithms.search.learn import learn as search
    from nopg.cli.report import conclude
    from nopg.cli.settings import data_and_settings, require_searchable
    from nopg.runs.fit import keep
    from nopg.runs.ownership import locked

    dataset, settings = data_and_settings(
        source, columns, config, out, require_searchable
    )
    typed = {"gamma": gamma, "seed": seed}
    chosen = {name: value for name, value in typed.items() if value is not None}
    print(dataset)
    with locked(out):
        policy = search(dataset, settings.initial_states, **(settings.model | chosen))
        keep(out, policy, shlex.join(["nopg", *sys.argv[1:]]))
    print(f"\n{policy.search}")
    conclude(policy, out)
