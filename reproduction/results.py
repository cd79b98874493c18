"""Results on disk: one file per experiment, one JSON line per finished trial.

A line is written whole and flushed before the next trial is waited for. A run that
is killed leaves at worst half a line at the end, which the next run removes: what
can be read is what was finished. Lines name the run, the code and the settings they
come from, so that files of several machines may simply be put one after another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nopg.data.files import write_atomically
from nopg.errors import DataError, NopgError
from reproduction.trial import Result, Trial

CodeOf = Callable[[Trial], str]
"""A trial to the version of the code it runs through."""


@dataclass(frozen=True)
class Record:
    """One finished trial."""

    trial: Trial
    code: str
    """Version of the code that made it, see `code_version`."""
    run: str
    """Which run made it."""
    result: Result


class MixedResultsError(NopgError, ValueError):
    """Results of other code or settings lie where new ones are to be added."""


class ResultsFile:
    """The finished trials of one experiment.

    Args:
        path: A `.jsonl` file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> list[Record]:
        """Every finished trial in the file; of one written twice, the first.

        Raises:
            DataError: If a line that is not the last cannot be read.
        """
        found: dict[tuple[str, str], Record] = {}
        for line in self._lines():
            if "trial" in line:
                record = Record(
                    Trial.from_json(line["trial"]), line["code"], line["run"], line["result"]
                )
                found.setdefault((record.trial.digest, record.code), record)
        return list(found.values())

    def runs(self) -> dict[str, dict[str, Any]]:
        """Command, versions and machine of each run, by its name."""
        lines = self._lines()
        return {line["run"]: line["provenance"] for line in lines if "provenance" in line}

    def restamps(self) -> list[dict[str, Any]]:
        """When and why results were taken for those of newer code, see `restamp`."""
        return [line["restamp"] for line in self._lines() if "restamp" in line]

    def begin(self, run: str, provenance: dict[str, Any]) -> None:
        """Note where the trials that follow come from."""
        self._append({"run": run, "provenance": provenance})

    def add(self, record: Record) -> None:
        """Keep a finished trial, at once."""
        self._append(_line(record))

    def require_same(self, trials: Iterable[Trial], code_of: CodeOf) -> None:
        """Refuse to add to results that other code or other settings made.

        Args:
            trials: What is about to be run.
            code_of: The version of the code by trial.

        Raises:
            MixedResultsError: If a trial of the same name has another digest, or any
                trial in the file was made by other code than it has now.
        """
        wanted = {trial.key: trial.digest for trial in trials}
        records = self.records()
        foreign = [r for r in records if r.code != code_of(r.trial)]
        if foreign:
            trial, code = foreign[0].trial, foreign[0].code
            raise MixedResultsError(
                f"Results must come from one version of the code, {len(foreign)} of "
                f"{len(records)} trials in {self.path} were made by other code "
                f"({trial.arm} by {code}, now {code_of(trial)}); choose another "
                "--out, or run them anew with --redo."
            )
        other = sorted(r.trial.key for r in records if _differs(r.trial, wanted))
        if other:
            raise MixedResultsError(
                f"Results must come from one set of settings, {len(other)} trials in "
                f"{self.path} were made with others (first: {other[0]}); choose "
                "another --out, or run them anew with --redo."
            )

    def restamp(self, code_of: CodeOf, note: dict[str, Any]) -> dict[str, list[str]]:
        """Take every result for one of the present code, and write down why.

        The file is written whole or not at all; the numbers in it do not change.

        Args:
            code_of: The present version of the code by trial.
            note: What was verified, and when.

        Returns:
            By arm, the old version and the new one; empty if all were present ones.

        Raises:
            MixedResultsError: If two versions made the results of one arm.
        """
        records = self.records()
        codes = {record.trial.arm: record.code for record in records}
        self.require_same([], lambda trial: codes[trial.arm])
        new = {record.trial.arm: code_of(record.trial) for record in records}
        changed = {arm: [codes[arm], new[arm]] for arm in codes if codes[arm] != new[arm]}
        if changed:
            lines = [
                line | {"code": new[Trial.from_json(line["trial"]).arm]}
                if "trial" in line
                else line
                for line in self._lines()
            ]
            self._write([*lines, {"restamp": note | {"codes": changed}}])
        return changed

    def set_aside(self, trials: Iterable[Trial], code_of: CodeOf) -> None:
        """Keep what `require_same` accepts; the file as it was gets another name.

        Nothing happens if all of it is accepted.
        """
        wanted = {trial.key: trial.digest for trial in trials}
        records = self.records()
        kept = [r for r in records if r.code == code_of(r.trial) and not _differs(r.trial, wanted)]
        if len(kept) == len(records):
            return
        number = 1
        while (old := self.path.with_suffix(f".old{number}.jsonl")).exists():
            number += 1
        old.write_bytes(self.path.read_bytes())
        runs = self.runs()
        lines: list[dict[str, Any]] = [
            {"run": run, "provenance": runs[run]}
            for run in dict.fromkeys(r.run for r in kept)
            if run in runs
        ]
        notes = [{"restamp": note} for note in self.restamps()]
        self._write([*lines, *map(_line, kept), *notes])

    def _write(self, lines: list[dict[str, Any]]) -> None:
        text = "".join(map(_text, lines))
        write_atomically(self.path, lambda stream: stream.write(text.encode()))

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):  # cut off by a kill: never finished
                return
            try:
                value = json.loads(line)
            except ValueError:
                raise DataError(
                    f"`{self.path}` must hold one JSON object per line, line {number} "
                    "is none; remove that line or the file."
                ) from None
            yield value

    def _append(self, line: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_half_line()
            with self.path.open("ab") as stream:
                stream.write(_text(line).encode())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise NopgError(
                f"`{self.path}` must be writable, got {error.strerror or error}; "
                "choose another --out."
            ) from error

    def _remove_half_line(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb+") as stream:
            end = stream.seek(0, os.SEEK_END)
            if end == 0:
                return
            stream.seek(end - 1)
            if stream.read(1) != b"\n":
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)


def _line(record: Record) -> dict[str, Any]:
    line = {"trial": record.trial.to_json(), "code": record.code, "run": record.run}
    return line | {"result": record.result}


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


def _differs(trial: Trial, wanted: dict[str, str]) -> bool:
    return trial.key in wanted and wanted[trial.key] != trial.digest
