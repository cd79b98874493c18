"""`python -m reproduction.restamp --verified "..."`: older results of newer code.

A result names the version of the code it comes from, and code that only moved or was
renamed has another version. Whoever has run some trials again and found the same
numbers says so here: every result in the folder then names the present version, and
each file gets a line that says what was verified, when, and which versions stood there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from nopg.errors import ConfigError, NopgError
from reproduction.outcomes import outcome_of
from reproduction.registry import MODULES, experiment
from reproduction.results import ResultsFile


def restamp(folder: Path, verified: str) -> dict[Path, dict[str, list[str]]]:
    """Write the present version of the code into every result of a folder.

    Args:
        folder: Results, a folder per experiment within.
        verified: Which trials were run again and gave the same numbers.

    Returns:
        By file that was changed, and by arm, the old version and the new one.

    Raises:
        ConfigError: If nothing is said to be verified.
        MixedResultsError: If two versions made the results of one arm.
    """
    if not verified.strip():
        raise ConfigError(
            "`--verified` must say which trials were run again and gave the same "
            "numbers, got nothing; run some of each method first."
        )
    when = datetime.now(UTC).isoformat(timespec="seconds")
    changed: dict[Path, dict[str, list[str]]] = {}
    for name in MODULES:
        for path in sorted((folder / name).glob("*.jsonl")):
            if ".old" in path.name:
                continue
            found = experiment(name)
            note = {"verified": verified, "when": when}
            codes = ResultsFile(path).restamp(found.code, note)
            if codes:
                changed[path] = codes
                file = ResultsFile(path)  # the summary names the versions, too
                outcome_of(found, path.with_suffix(""), file, file.records(), 0)
    return changed


def main(arguments: Sequence[str]) -> None:
    """Restamp a folder and say what was changed."""
    parser = argparse.ArgumentParser("python -m reproduction.restamp", description=__doc__)
    parser.add_argument(
        "--verified", required=True, help="which trials were run again and gave the same numbers"
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    for path, codes in restamp(options.out, options.verified).items():
        for arm, (old, new) in codes.items():
            print(f"{path}: {arm}: {old} is now {new}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NopgError as error:
        sys.stderr.write(f"reproduction: {error}\n")
        raise SystemExit(1) from None
