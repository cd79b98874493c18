"""Puts the page together: one file, no network, nothing from data run as code."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from datetime import datetime, timezone
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data.files import write_atomically
from nopg.data.validation import counted
from nopg.report import fragments
from nopg.report.coordinates import coordinates, held_state
from nopg.report.findings import Evidence, findings
from nopg.report.maps import planes
from nopg.report.paths import predicted_paths
from nopg.report.payload import Drawing, json_in_html, payload
from nopg.report.read import Run, fingerprint
from nopg.report.remarks import verdict
from nopg.report.support import REACH, support_along_visits

SCRIPTS = (
    "base.js",
    "frame.js",
    "curve.js",
    "planes.js",
    "maps.js",
    "paths.js",
    "support.js",
    "start.js",
)
"""Parts of the one script, in the order they build on each other."""


def write_report(run: Run, path: str | Path) -> Path:
    """Write the report of `run` to one HTML file, whole or not at all.

    Args:
        run: A run, from `read_run` or `Run.of`.
        path: The file to write.

    Raises:
        ModelFileError: If the model was saved without its data.
        NopgError: If the file cannot be written.
    """
    path = Path(path)
    page = report_page(run).encode()
    write_atomically(path, lambda stream: stream.write(page))
    return path


def report_page(run: Run) -> str:
    """The whole page as text."""
    evidence, drawing = _computed(run)
    script = _inline("\n".join(_asset(name) for name in SCRIPTS))
    style = _asset("style.css")
    remarks = findings(evidence)
    judgement = verdict(remarks)
    n_against = sum(r.level in ("serious", "warning") and bool(r.brief) for r in remarks)
    data, support = run.data, evidence.support
    fields = {
        "policy": _security(script, style),
        "version": escape(_version("nopg")),
        "title": escape(run.name),
        "style": style,
        "script": script,
        "lede": escape(_lede(run)),
        "verdict": fragments.verdict_card(judgement, n_against),
        "tiles": fragments.tiles(_tiles(evidence)),
        "remarks": fragments.remark_list(remarks),
        "hide_learning": "" if len(run.updates) > 1 else " hidden",
        "learning": escape(_training_words(run)),
        "maps": escape(_map_words(drawing)),
        "choosers": _choosers(run, drawing),
        "paths": escape(_path_words(evidence)),
        "support": escape(
            "Every step the model predicts is asked of the data at the action the "
            "policy takes. Shares are of the predicted visits, sooner ones counting "
            f"more. Beyond {REACH:g} bandwidths a kernel has faded, and the model "
            "repeats what happened far away."
        ),
        "shares": fragments.share_bar(support),
        "worst": fragments.worst_table(support, data),
        "data": escape(_data_words(evidence)),
        "columns": fragments.column_table(evidence.description, data),
        "notes": fragments.notes(evidence.description),
        "settings": _settings(run),
        "footer": escape(_footer()),
        "numbers": json_in_html(payload(run, drawing)),
    }
    # One pass over the template: what a field holds is never looked into again.
    return re.sub(r"\{\{(\w+)\}\}", lambda m: fields[m[1]], _asset("template.html"))


def _computed(run: Run) -> tuple[Evidence, Drawing]:
    model, data = run.model, run.data
    starts = model.setup.initial_states
    assert starts is not None
    support = support_along_visits(model)
    axes = coordinates(data, starts, np.array(model.bandwidths.state))
    held = held_state(axes, support.states, support.visits)
    paths = predicted_paths(model)
    drawing = Drawing(axes, held, planes(model, axes, held), paths, support)
    description = data.describe(model.action_space)
    return Evidence(run, model.objective(), support, paths, description), drawing


def _security(script: str, style: str) -> str:
    """Only this very script and style may run; nothing may be fetched at all."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; "
        f"style-src 'sha256-{digest(style)}'; base-uri 'none'; form-action 'none'"
    )


def _inline(script: str) -> str:
    """The script in a scope of its own."""
    return f'(() => {{\n"use strict";\n{script}\n}})();'


def _asset(name: str) -> str:
    return files("nopg.report").joinpath("assets", name).read_text(encoding="utf-8")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _lede(run: Run) -> str:
    data, kind = run.data, run.model.config.policy
    names = ", ".join(data.action_names[:4])
    rows = f"{counted(len(data), 'logged transition')}"
    if data.episodes is not None:
        rows += f" in {counted(data.n_episodes, 'episode')}"
    article = "A" if kind != "custom" else "Your own"
    word = "module" if kind == "custom" else f"{kind} policy"
    return (
        f"{article} {word} for {names}, learned from {rows} and nothing else: no "
        "simulator, no trial."
    )


def _tiles(evidence: Evidence) -> list[tuple[str, str, str]]:
    run, objective = evidence.run, evidence.objective
    gamma = run.model.config.estimator.gamma
    certain = f"numerically exact to {fragments.number(objective.certificate, 1)}"
    if evidence.interval is not None:
        low, high = (fragments.number(bound) for bound in evidence.interval)
        certain = f"between {low} and {high}, by the data"
    entries = [("Estimated return J", fragments.number(float(objective)), certain)]
    curve = run.column("objective")
    if len(curve) > 1:
        gain = float(objective) - curve[0]
        sign = "+" if gain > 0 else ""
        entries.append(
            (
                "Gained by learning",
                f"{sign}{fragments.number(gain, 3)}",
                f"from {fragments.number(curve[0])} before the first update",
            )
        )
    else:
        a_step = (1.0 - gamma) * float(objective)
        entries.append(("Reward a step", fragments.number(a_step), "on average"))
    support = evidence.support
    entries.append(
        (
            "Visits near data",
            f"{1.0 - support.beyond:.0%}",
            f"within {REACH:g} bandwidths of a sample",
        )
    )
    measured = run.evaluations()
    for name, (_, values) in list(measured.items())[:1]:
        entries.append((f"{name}, measured", fragments.number(values[-1]), "last policy"))
    if not measured:
        ends = int(evidence.paths.is_over.sum())
        entries.append(
            (
                "Predicted to end",
                f"{ends} of {len(evidence.paths.ends)}",
                f"paths within {evidence.paths.horizon} steps",
            )
        )
    return entries


def _training_words(run: Run) -> str:
    seconds = [s for s in run.column("seconds") if s == s]
    words = f" {counted(len(run.updates), 'update')}"
    if seconds:
        words += f" in {fragments.number(seconds[-1], 2)} s"
    return f"{words}; {run.stopped or 'finished'}."


def _map_words(drawing: Drawing) -> str:
    if len(drawing.axes) == 1:
        return "Value, visits and action along the state."
    if len(drawing.axes) == 2:
        return "Value, visits and action over the plane of states."
    return (
        "Slices of a state with more than two coordinates: choose two, the others are "
        "held."
    )


def _choosers(run: Run, drawing: Drawing) -> str:
    menus = []
    if len(drawing.axes) > 2:
        menus += [("choose-x", "across"), ("choose-y", "up")]
    if not run.data.is_discrete and run.data.actions.shape[1] > 1:
        menus.append(("choose-action", "action"))
    menus.append(("choose-colour", "data coloured by"))
    return "".join(fragments.chooser(name, label) for name, label in menus)


def _path_words(evidence: Evidence) -> str:
    paths = evidence.paths
    over = int(paths.is_over.sum())
    ends = (
        f" {over} of them end in a terminal sample, after {int(np.median(paths.ends[paths.is_over]))} "
        "steps in the median."
        if over
        else ""
    )
    return (
        f"{len(paths.ends)} paths drawn from the kernel model itself, {paths.horizon} "
        "steps from the initial states: each step is a transition of the data, the "
        f"next one that of a sample nearby.{ends} A real system moves smoothly; where "
        "these lines scatter, the model is unsure."
    )


def _data_words(evidence: Evidence) -> str:
    described = evidence.description
    lengths = described.episode_lengths
    words = f"{counted(described.n_transitions, 'transition')}"
    if lengths is not None:
        words += (
            f" in {counted(described.n_episodes, 'episode')} of {lengths[0]} to "
            f"{lengths[2]} steps (median {lengths[1]})"
        )
    return (
        f"{words}; {described.n_terminations:,} ended the task, "
        f"{described.n_truncations:,} were cut. Data fill {described.coverage:.0%} of "
        "the cells they could."
    )


def _settings(run: Run) -> str:
    model, data = run.model, run.data
    h = model.bandwidths
    widths = [*zip(data.observation_names, h.state, strict=True)]
    widths += [*zip(data.action_names, h.action, strict=True)]
    rows = [[name, fragments.number(width)] for name, width in widths]
    origin: list[tuple[str, Any]] = [("data, SHA-256", fingerprint(data))]
    origin += [(name, _version(name)) for name in ("nopg", "torch", "numpy", "scipy")]
    origin.append(("python", platform.python_version()))
    known = model.config.flat()
    told = [(k, v) for k, v in run.about.items() if k not in known]
    parts = ["<h3>Settings</h3>", fragments.facts(known.items())]
    parts += ["<h3>Bandwidths</h3>", fragments.table(["column", "bandwidth"], rows)]
    if run.evaluation:
        parts += ["<h3>Evaluation</h3>", fragments.facts(run.evaluation.items())]
    parts += ["<h3>Origin</h3>", fragments.facts([*told, *origin])]
    return "".join(parts)


def _footer() -> str:
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"Made by nopg {_version('nopg')} on {made}. This page holds everything it "
        "shows; it loads nothing."
    )
