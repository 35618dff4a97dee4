"""HTML pages that open from disk and need no other file: one base template, one stylesheet.

`templates/base.html` is what the pages of the demo, of evaluations and of reports have in common;
`render_page.py` fills a template and writes the page.
"""

from .render_page import check_writable, render, write_page

__all__ = ["check_writable", "render", "write_page"]
