"""`nopg learn`: a data file in, a policy found by search out, nothing to tune."""

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
    history: Annotated[
        str | None,
        typer.Option(help="Past steps to act on: a number, 0 for none; auto if unset."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every draw.")] = None,
) -> None:
    """Fit models of the system, plan and refine policies in them, keep the best.

    Nothing to tune, and the usual choice. `nopg fit` is the paper's algorithm, which
    learns no model of the system.
    """
    from nopg.algorithms.search.learn import learn as search
    from nopg.cli.report import conclude
    from nopg.cli.settings import read_data, read_settings, require_searchable
    from nopg.runs.folder import RunFolder, locked
    from nopg.runs.run_config import RunConfig

    settings = read_settings(config)
    require_searchable(settings)
    dataset = read_data(source, columns, settings, out)
    is_number = history is not None and history.isdecimal()
    steps = int(str(history)) if is_number else history
    typed = {"gamma": gamma, "seed": seed, "history": steps}
    chosen = {name: value for name, value in typed.items() if value is not None}
    print(dataset)
    with locked(out):
        policy = search(dataset, settings.initial_states, **(settings.model | chosen))
        RunFolder.create(out, RunConfig.of(policy)).finish(policy)
    print(f"\n{policy.search}")
    if policy.memory is not None and policy.data is not None:
        print(f"\nIt acts on the past too. {policy.data.notes[-1]}")
    conclude(policy, out)
