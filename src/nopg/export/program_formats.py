"""A policy as a program: names and numbers for one C99 header, or one script."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nopg.errors import ConfigError
from nopg.export.guard import SupportPoints

BLOCK = 16  # points of the guard that a C program compares at once
_TABLES: tuple[str, ...] = ("mean", "std", "before", "centre", "half_width", "low", "high")
_TABLES += ("scale", "points", "threshold", "fallback")  # real numbers; some policies lack some


@dataclass(frozen=True)
class Program:
    """Everything a program says and knows."""

    name: str  # prefix of every name in it
    about: Sequence[str]  # lines for its first comment
    arrays: Mapping[str, Any]  # as `policy_arrays` gives them
    guard: SupportPoints | None = None  # samples to compare with; None for no guard
    fallback: Sequence[float] | None = None  # action where no sample is near
    is_single: bool = False  # single precision

    @property
    def is_discrete(self) -> bool:
        """Whether actions are labels."""
        return str(self.arrays["kind"]) == "discrete"

    @property
    def layers(self) -> list[tuple[Any, Any]]:
        """Weight (n_out, n_in) and bias of each layer."""
        a = self.arrays
        return [(a[f"weight_{i}"], a[f"bias_{i}"]) for i in range(int(a["n_layers"]))]

    @property
    def sizes(self) -> dict[str, int]:
        """How many there are of everything, by the names of the programs."""
        a = self.arrays
        n_taken = len(self.layers[-1][1]) if self.is_discrete else len(a["low"])
        n_past = len(a.get("copied", ()))
        return {
            "WIDTH": len(a["mean"]),
            "N_OBSERVATIONS": len(a["mean"]) - n_past,
            "N_PAST": n_past,
            "N_CHANGES": int(a.get("n_changes", 0)),
            "N_TAKEN": n_taken,
            "N_ACTIONS": 1 if self.is_discrete else n_taken,
            "N_LAYERS": len(self.layers),
            "WIDEST": max(len(a["mean"]), *(len(bias) for _, bias in self.layers)),
            "N_BLOCKS": 0 if self.guard is None else -(-len(self.guard.points) // BLOCK),
            "BLOCK": BLOCK,
            "IS_DISCRETE": int(self.is_discrete),
            "IS_SQUASHED": int(bool(a.get("is_squashed", False))),
            "HAS_FALLBACK": int(self.fallback is not None),
        }

    @property
    def tables(self) -> dict[str, Any]:
        """Real numbers by name; weights layer by layer, a bias and then each input."""
        a = self.arrays
        parts = [np.concatenate([bias[None], weight.T]) for weight, bias in self.layers]
        found = {name: a[name] for name in _TABLES if name in a}
        found["weights"] = np.concatenate([part.reshape(-1) for part in parts])
        if self.guard is not None:
            found |= {"scale": self.guard.scale, "points": self.guard.points}
            found["threshold"] = [self.guard.threshold]
        if self.fallback is not None:
            found["fallback"] = self.fallback
        return found

    @property
    def whole_tables(self) -> dict[str, list[int]]:
        """Whole numbers by name."""
        a = self.arrays
        past = {n: [int(x) for x in a[n]] for n in ("first", "copied") if n in a}
        return {"widths": [self.sizes["WIDTH"], *(len(bias) for _, bias in self.layers)], **past}


def to_c(program: Program) -> str:
    """The header. Points are laid out in blocks, column by column."""
    ending, tables, lines = "f" if program.is_single else "", program.tables, []
    if program.guard is not None:
        points, n = tables["points"], program.sizes["N_BLOCKS"] * BLOCK
        filled = points[np.minimum(np.arange(n), len(points) - 1)]  # the last, again
        tables["points"] = filled.reshape(-1, BLOCK, points.shape[1]).transpose(0, 2, 1)
    lines += [f"#define @P@_{name} {value}" for name, value in program.sizes.items()]
    for name, integers in program.whole_tables.items():
        lines.append(f"static const int @p@_{name}[] = {{{_joined(integers)}}};")
    for name, values in tables.items():
        kind = "action" if name == "fallback" else "real"
        if name == "fallback" and program.is_discrete:
            texts = [str(int(values[0]))]
        else:
            texts = _numbers(values, program.is_single, ending, "INFINITY")
        line = f"static const @p@_{kind} @p@_{name}[] = {{{_joined(texts)}}};"
        wrapped = textwrap.fill(line, 88, subsequent_indent="  ")
        is_guard = name in ("scale", "points", "threshold")
        lines.append(f"#ifndef @P@_NO_GUARD\n{wrapped}\n#endif" if is_guard else wrapped)
    words = {"REAL": "float" if program.is_single else "double", "TANH": f"tanh{ending}"}
    words["ACTION"] = "int" if program.is_discrete else "@p@_real"
    return fill_template("policy.h", program, "\n".join(lines), **words)


def to_js(program: Program) -> str:
    """The script: a constant of the program's name."""
    tables: dict[str, Any] = dict.fromkeys(_TABLES, ()) | program.tables
    whole: dict[str, Any] = {"first": (), "copied": ()} | program.whole_tables
    lines = [f"const {name} = {value};" for name, value in program.sizes.items()]
    lines += [f"const {name} = [{_joined(v)}];" for name, v in whole.items()]
    for name, table in tables.items():
        texts = _numbers(table, program.is_single, "", "Infinity")
        line = f"const {name} = [{_joined(texts)}];"
        lines.append(textwrap.fill(line, 84, subsequent_indent="  "))
    return fill_template("policy.js", program, textwrap.indent("\n".join(lines), "  "))


def program_name(stem: str) -> str:
    """A file's name as the beginning of names in C and JavaScript."""
    name = re.sub(r"\W", "_", stem, flags=re.ASCII).lower().strip("_")
    if not name or not name[0].isalpha():
        raise ConfigError(f"The name of a program must begin with a letter, got {stem!r}.")
    return name


def fill_template(template: str, program: Program, numbers: str = "", **words: str) -> str:
    """A program, or `check.c` and `check.js`, which run one, from its template."""
    text = (Path(__file__).parent / "templates" / template).read_text(encoding="utf-8")
    # Nothing that names of columns hold may end the comment they stand in.
    about = [f" * {line}".replace("*/", "* /") for line in program.about[1:]]
    title = program.about[0].replace("*/", "* /")
    words = {"TITLE": title, "ABOUT": "\n".join(about), "NUMBERS": numbers, **words}
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text.replace("@p@", program.name).replace("@P@", program.name.upper())


def _numbers(values: Any, is_single: bool, ending: str, infinity: str) -> list[str]:
    """Numbers with the fewest digits that give them back."""
    kind: Any = np.float32 if is_single else np.float64
    return [
        f"{value!s}{ending}" if np.isfinite(value) else str(value).replace("inf", infinity)
        for value in np.asarray(values, dtype=kind).reshape(-1)
    ]


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)
