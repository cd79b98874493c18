"""`nopg.learn` in a run folder; data and checkpoint are in `search` until the end."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from nopg.algorithms.search.learn import learn
from nopg.data.dataset import Dataset
from nopg.errors import NopgError, RunError
from nopg.fitted.policy import FittedPolicy
from nopg.runs.folder import RunFolder, locked, require_vacant
from nopg.runs.run_config import RunConfig, read_json, reading, require_plain, write_json

FOLDER, DATA = "search", "data.npz"
SETTINGS, CHECKPOINT = "settings.json", "search.checkpoint"


def start_search(path: Path, data: Dataset, initial: Any, settings: dict[str, Any]) -> FittedPolicy:
    """Search in a new run folder; `settings` are those of `nopg.learn`."""
    with locked(path):
        require_vacant(path)
        unfinished = path / FOLDER
        if (unfinished / SETTINGS).exists():
            raise RunError(
                f"`{path}` must be a new folder, it holds a search that is not done; "
                f"go on with nopg learn --resume {path}, or choose another name."
            )
        unfinished.mkdir(parents=True, exist_ok=True)
        data.save(unfinished / DATA)
        starts = None if initial is None else np.array(initial, float).tolist()
        # Written last: what is there is whole.
        write_json(unfinished / SETTINGS, {"settings": settings, "initial_states": starts})
        return _search(path)


def resume_search(path: Path) -> FittedPolicy:
    """Go on with a search that was killed, to the bits of an unbroken one."""
    with locked(path):
        if not (path / FOLDER / SETTINGS).exists():
            raise RunError(
                f"`{path}` must hold a search that is not done, it is done or was killed before it "
                "began; look at it with nopg report, or begin with nopg learn DATA --out."
            )
        return _search(path)


def _search(path: Path) -> FittedPolicy:
    folder = path / FOLDER
    stored = read_json(folder / SETTINGS)
    with reading(folder / SETTINGS, "the settings of a search"):
        settings, starts = dict(stored["settings"]), stored["initial_states"]
        if odd := settings.keys() & {"data", "initial_states", "start", "checkpoint"}:
            raise ValueError(f"they have {', '.join(sorted(odd))}")
    require_plain(folder / DATA)
    data = Dataset.load(folder / DATA)
    try:
        policy = learn(data, starts, **settings, checkpoint=folder / CHECKPOINT)
    except NopgError:
        if not (folder / CHECKPOINT).exists():  # refused before it began
            shutil.rmtree(folder, ignore_errors=True)
        raise
    is_begun = (path / "run.json").exists()  # killed between the two files below
    run = RunFolder.open(path) if is_begun else RunFolder.create(path, RunConfig.of(policy))
    run.finish(policy)
    shutil.rmtree(folder, ignore_errors=True)
    return policy
