"""Formulas of the documentation as MathML, made when the site is built.

Browsers draw MathML themselves, so no page needs a script or a font from elsewhere.
On a page, `$q = r$` is a formula in a line; a paragraph `$$ ... $$` is one of its own.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.inlinepatterns import InlineProcessor

INLINE = r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])"
"""One dollar a side, no space inside: prices and shell variables stay text."""
AFTER_CODE = 185
"""Below the priority of inline code (190), above that of escapes (180)."""


_ATOM = r"(<m[ion][^>]*>[^<]*</m[ion]>)"
_PRIMED = re.compile(rf"<msup>{_ATOM}<mi>&#x02032;</mi></msup>")
_PRIMED_INDEX = re.compile(rf"<msubsup>{_ATOM}{_ATOM}<mi>&#x02032;</mi></msubsup>")
PRIME = '<mtext class="prime">&#x02032;</mtext>'
"""In the text font: as an exponent some mathematical fonts make it a speck."""


def mathml(formula: str, display: str) -> str:
    """A formula in LaTeX as MathML.

    Args:
        formula: Without its dollars.
        display: "inline" or "block".
    """
    html = str(convert(formula, display=display))
    html = _PRIMED.sub(rf"<mrow>\1{PRIME}</mrow>", html)
    return _PRIMED_INDEX.sub(rf"<msub><mrow>\1{PRIME}</mrow>\2</msub>", html)


class InlineMath(InlineProcessor):  # type: ignore[misc]
    """`$...$` becomes a formula in the line."""

    def handleMatch(self, m: Any, data: str) -> tuple[str, int, int]:
        """The placeholder of the formula and what it replaces."""
        html = mathml(m.group(1), "inline")
        return self.md.htmlStash.store(html), m.start(0), m.end(0)


class DisplayMath(BlockProcessor):  # type: ignore[misc]
    """A paragraph between `$$` and `$$` becomes a centred formula."""

    def test(self, parent: etree.Element, block: str) -> bool:
        """Whether the paragraph is a formula."""
        text = block.strip()
        return len(text) > 4 and text.startswith("$$") and text.endswith("$$")

    def run(self, parent: etree.Element, blocks: list[str]) -> None:
        """Put the formula where the paragraph was."""
        formula = blocks.pop(0).strip().strip("$").strip()
        html = mathml(formula, "block")
        # Wide formulas scroll in a box of their own instead of widening the page.
        holder = etree.SubElement(parent, "div", {"class": "formula", "tabindex": "0"})
        holder.text = self.parser.md.htmlStash.store(html)


class MathML(Extension):  # type: ignore[misc]
    """Both kinds of formula, as one Markdown extension."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the two processors."""
        md.inlinePatterns.register(InlineMath(INLINE, md), "mathml", AFTER_CODE)
        md.parser.blockprocessors.register(DisplayMath(md.parser), "mathml", 175)


def on_config(config: Any) -> Any:
    """What MkDocs calls once: adds the extension."""
    config.markdown_extensions.append(MathML())
    return config
