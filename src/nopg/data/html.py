"""Small pieces of HTML for notebooks; every text is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def html_summary(title: str, body: str, notes: Iterable[str] = ()) -> str:
    """A title, what stands below it, and notes that unfold."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    folded = f"<details><summary>notes</summary><ul>{items}</ul></details>"
    return f"<p><code>{escape(title)}</code></p>{body}{folded if items else ''}"
