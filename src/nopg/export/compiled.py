"""An exported program as a function: compiled or interpreted here, to compare it."""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.compiled import COMPILERS
from nopg.errors import NopgError
from nopg.export.program_formats import Program, checker

STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")
LONGEST = 120.0  # seconds that compiling or 10,000 states may take


@dataclass
class ProgramRunner:
    """Runs an exported program at many states."""

    program: Program
    text: str  # the exported file
    suffix: str  # ".h" or ".js"
    seconds: float = float("nan")  # what one action took in the last call
    # What the program said of each state in the last call, (m,): 0 for an action of the
    # policy, 1 for no sample near, 2 for refused.
    found: NDArray[np.int64] | None = None

    @staticmethod
    def tool(suffix: str) -> str | None:
        """The compiler or interpreter that is there, if any."""
        names = COMPILERS if suffix == ".h" else ("node",)
        return next((path for name in names if (path := shutil.which(name))), None)

    def __call__(
        self, observation: Any, state: Any = None, episode_start: Any = None
    ) -> Any:
        """Actions, and the next state of a policy with memory, as the graphs give."""
        n_past = self.program.sizes["N_PAST"]
        columns = [np.asarray(observation, dtype=np.float64)]
        if n_past:
            columns += [state, np.asarray(episode_start)[:, None]]
        else:
            columns.append(np.ones((len(columns[0]), 1)))
        rows = np.concatenate(columns, axis=1).astype(np.float64)
        with tempfile.TemporaryDirectory() as folder:
            told = self._run(Path(folder), rows)
        self.found = told[:, 0].astype(np.int64)
        actions = told[:, 1 : told.shape[1] - n_past]
        if self.program.is_discrete:
            actions = actions[:, 0]
        return (actions, told[:, told.shape[1] - n_past :]) if n_past else actions

    def _run(self, folder: Path, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lines that the program says of rows: what it found, its action, its past."""
        check = "check.c" if self.suffix == ".h" else "check.js"
        texts = {f"policy{self.suffix}": self.text, check: checker(self.program, check)}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        tool = self.tool(self.suffix) or "node"
        command = [tool, check]
        if self.suffix == ".h":
            _told([tool, *STRICT, check, "-o", "check", "-lm"], folder)
            command = [str(folder / "check")]
        sizes = (len(rows), self.program.sizes["N_OBSERVATIONS"], rows.shape[1])
        done = _told([*command, *map(str, sizes)], folder, rows.tobytes())
        self.seconds = float(done.stderr.split()[0])
        return np.array([line.split() for line in done.stdout.splitlines()], np.float64)


def _told(
    command: list[str], folder: Path, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(
            command, cwd=folder, input=given, capture_output=True, timeout=LONGEST
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NopgError(f"`{command[0]}` must run an export, got {error}.") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NopgError(
            f"An export must compile and run without a warning, `{command[0]}` said "
            f"{said[0] if said else done.returncode}; nothing was written, please "
            "report this."
        )
    return done
