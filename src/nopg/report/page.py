"""Puts the page together: one file, no network, nothing from data run as code."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data.files import write_atomically
from nopg.report import fragments, words
from nopg.report.coordinates import coordinates, held_state
from nopg.report.evidence import Evidence, gather
from nopg.report.findings import findings
from nopg.report.maps import planes
from nopg.report.payload import Drawing, json_in_html, payload
from nopg.report.read import Run, fingerprint
from nopg.report.remarks import verdict

SCRIPTS = (
    "base.js",
    "frame.js",
    "curve.js",
    "planes.js",
    "overlays.js",
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
        PolicyFileError: If the model was saved without its data.
        NopgError: If the file cannot be written.
    """
    path = Path(path)
    # A name may hold half a character, which no file can: it becomes a question mark.
    page = report_page(run).encode(errors="replace")
    write_atomically(path, lambda stream: stream.write(page))
    return path


def report_page(run: Run) -> str:
    """The whole page as text."""
    evidence = gather(run)
    drawing = _drawing(evidence)
    script = _inline("\n".join(_asset(name) for name in SCRIPTS))
    style = _asset("style.css")
    remarks = findings(evidence)
    data, support = run.data, evidence.support
    fields = {
        "policy": _security(script, style),
        "version": escape(_version("nopg")),
        "title": escape(run.name),
        "style": style,
        "script": script,
        "lede": escape(words.lede(run)),
        "verdict": fragments.verdict_card(verdict(remarks)),
        "tiles": fragments.tiles(words.tiles(evidence)),
        "remarks": fragments.remark_list(remarks),
        "hide_learning": "" if len(run.updates) > 1 else " hidden",
        "learning": escape(words.of_training(run)),
        "hide_search": " hidden" if run.model.search is None else "",
        "search": fragments.search_table(run.model.search),
        "maps": escape(words.of_maps(drawing)),
        "choosers": _choosers(run, drawing),
        "paths": escape(words.of_paths(evidence)),
        "support": escape(words.of_support()),
        "shares": fragments.share_bar(support),
        "worst": fragments.worst_table(support, data),
        "data": escape(words.of_data(evidence)),
        "columns": fragments.column_table(evidence.description, data),
        "notes": fragments.notes(evidence.description),
        "settings": _settings(run),
        "footer": escape(_footer()),
        "numbers": json_in_html(payload(run, drawing)),
    }
    # One pass over the template: what a field holds is never looked into again.
    return re.sub(r"\{\{(\w+)\}\}", lambda m: fields[m[1]], _asset("template.html"))


def _drawing(evidence: Evidence) -> Drawing:
    model, support = evidence.run.model, evidence.support
    starts = model.setup.initial_states
    assert starts is not None
    axes = coordinates(evidence.run.data, starts, np.array(model.bandwidths.state))
    held = held_state(axes, support.states, support.visits)
    found = planes(model, axes, held)
    return Drawing(axes, held, found, evidence.paths, support)


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


def _choosers(run: Run, drawing: Drawing) -> str:
    menus = []
    if len(drawing.axes) > 2:
        menus += [("choose-x", "across"), ("choose-y", "up")]
    if not run.data.is_discrete and run.data.actions.shape[1] > 1:
        menus.append(("choose-action", "action"))
    menus.append(("choose-colour", "data coloured by"))
    return "".join(fragments.chooser(name, label) for name, label in menus)


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
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"Made by nopg {_version('nopg')} on {made}. This page holds everything it "
        "shows; it loads nothing."
    )
