"""Labels and notes as text in each format: whatever a result file holds, it stays text."""

from __future__ import annotations

import re

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "_%&#${}"},
    **{"±": r"$\pm$", "–": "--", "≤": r"$\leq$", "↓": r"$\downarrow$", "†": r"$\dagger$"},
}
_LATEX_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")
_MARKDOWN_SIGNS = re.compile(r"[\\|*`\[\]~]|(?<!\w)_|_(?!\w)")


def one_line(text: str) -> str:
    r"""The text without control characters: `ESC` becomes the four characters `\x1b`."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def in_markdown(text: str) -> str:
    r"""The text in a Markdown table: no markup, no HTML, no further column."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN_SIGNS.sub(lambda sign: f"\\{sign[0]}", safe)


def in_latex(text: str) -> str:
    """The text in LaTeX: no commands."""
    return _LATEX_SIGNS.sub(lambda sign: _LATEX[sign[0]], one_line(text))


def in_spreadsheet(text: str) -> str:
    """The text in CSV: no formula where a spreadsheet opens it."""
    safe = one_line(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe
