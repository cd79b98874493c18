"""Puts the page together: one file, no network, nothing from data run as code."""

import base64
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from nopg.data.files import write_atomically
from nopg.data.io.metadata import fingerprint
from nopg.fitted.policy import FittedPolicy
from nopg.report import fragments, text
from nopg.report.evidence import Evidence, gather
from nopg.report.payload import json_in_html, payload
from nopg.runs.run_config import versions

# In the order they build on each other.
SCRIPTS = ("base", "frame", "curve", "planes", "overlays", "maps", "paths", "start")


def write_report(
    policy: FittedPolicy,
    path: str | Path,
    *,
    title: str = "policy",
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write what is known of a policy to one HTML file, whole or not at all.

    Args:
        policy: The policy, with its data.
        path: The file to write.
        title: What to call it.
        origin: Further facts on how it came to be: host, command, times.

    Raises:
        NotFittedError: If the policy was saved without its data.
        NopgError: If the file cannot be written.
    """
    path = Path(path)
    # A name may hold half a character, which no file can: it becomes a question mark.
    content = report_page(gather(policy), title, origin).encode(errors="replace")
    write_atomically(path, lambda stream: stream.write(content))
    return path


def report_page(
    evidence: Evidence, title: str = "policy", origin: Mapping[str, Any] | None = None
) -> str:
    """The whole page as text."""
    numbers = payload(evidence)
    scripts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{scripts}\n}})();'  # a scope of its own
    style = _asset("style.css")
    policy, data, replay = evidence.policy, evidence.data, evidence.grounds.replay
    notes = evidence.description.findings
    words = text.words(evidence) | {
        "version": version("nopg"),
        "title": title,
        "n_notes": str(len(notes)),
        "data": ". ".join(evidence.description.counts()) + ".",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    fields = {name: escape(word) for name, word in words.items()} | {
        "policy": _security(script, style),
        "style": style,
        "script": script,
        "compared": fragments.range_bars(text.compared(evidence)),
        "hide_logged": " hidden" if numbers["logged"] is None else "",
        "replay_table": fragments.replay_table(replay),
        "suggestion": fragments.suggestion_table(evidence.suggestion),
        "hide_search": " hidden" if policy.search is None else "",
        "search": fragments.search_table(policy.search) if policy.search else "",
        "hide_learning": " hidden" if numbers["curve"] is None else "",
        "notes": fragments.note_list(notes),
        "hide_held": " hidden" if len(numbers["axes"]) <= 2 else "",
        "columns": fragments.column_table(evidence.description),
        "origin_of_rows": "".join(f"<p>{escape(one)}</p>" for one in data.notes),
        "settings": _settings(evidence, origin or {}),
        "numbers": json_in_html(numbers),
    }
    # One pass over the template: what a field holds is never looked into again.
    return re.sub(r"\{\{(\w+)\}\}", lambda m: fields[m[1]], _asset("template.html"))


def _security(script: str, style: str) -> str:
    """Only this very script and style may run; nothing may be fetched at all."""
    digests = (hashlib.sha256(part.encode()).digest() for part in (script, style))
    of_script, of_style = (base64.b64encode(digest).decode() for digest in digests)
    return (
        f"default-src 'none'; script-src 'sha256-{of_script}'; "
        f"style-src 'sha256-{of_style}'; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("nopg.report").joinpath("assets", name).read_text(encoding="utf-8")


def _settings(evidence: Evidence, origin: Mapping[str, Any]) -> str:
    policy, data = evidence.policy, evidence.data
    # `origin` last: what it was made with, where that is another one.
    facts = {"data, SHA-256": fingerprint(data), **versions(), **origin}
    parts = ["<h3>Settings</h3>", fragments.facts(policy.settings.items())]
    if not evidence.is_by_models:
        h, names = policy.bandwidths, (*data.observation_names, *data.action_names)
        rows = zip(names, [fragments.number(x) for x in (*h.state, *h.action)], strict=True)
        parts += ["<h3>Bandwidths</h3>", fragments.table(["column", "width"], rows)]
    return "".join([*parts, "<h3>Origin</h3>", fragments.facts(facts.items())])
