"""One self-contained HTML page of a trace report, to send to a colleague: no script, nothing loaded from elsewhere.

Names come from traces and may hold anything, so every piece of text is escaped, and the page's own security policy
forbids all but its style and its embedded pictures.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

TERMS = {
    "tax of the fastest rank": "how much longer the longest kernel of a collective is than the shortest: how long the "
    "first rank waits for the last, which waits for nobody; its mean and 99 % quantile over collectives",
    "p50, p99": "median and 99th percentile over collectives of the tax of the fastest rank, whose mean stands before",
    "tax of the median rank": "how much longer the median kernel is than the shortest",
    "mean wait, were there fewer ranks": "how long the mean rank would wait in a group of n of these ranks, the mean "
    "over all such groups; intervals are in tax_by_size.csv",
    "share": "of the time that all ranks spend in these collectives, what part is waiting",
    "costs, causes, without it": "a rank costs what is saved without it: how much earlier collectives would begin were "
    "it not waited for, while the others arrive as they did; it causes the tax of the collectives at which it is last, "
    "as a share of all",
    "receiver waits, sender waits": "how much longer the kernel of a receive is than that of its send, with which it "
    "ends, or the other way round",
    "status": "ok: kernels of all ranks end together, so that they are the same collectives; partial: ranks or "
    "kernels are missing, or are not known to be collectives but behave like some; refused: no tax can be given",
    "GPU work apart, GPU idle apart": "how far ranks differ in the work their GPUs did, and in the time these did "
    "nothing, since the collective before; corr.: how both go with the tax",
    "variation over ranks": "standard deviation over ranks / mean of a compute block's GPU work, mean over blocks",
}
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid #999; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
img { max-width: 44rem; width: 100%; display: block; margin: 1.5rem 0; } div { overflow-x: auto; }
"""


def page(title: str, lead: str, tables: Iterable[tuple[str, Sequence[Sequence[str]]]], lines: Sequence[str],
         pictures: Iterable[Path]) -> str:  # fmt: skip
    """The page.

    Args:
        title: its heading.
        lead: the finding in a sentence.
        tables: headings with rows of text, the first row the names of the columns.
        lines: what else must be said, a line each.
        pictures: PNG files, embedded.

    >>> "<script>" in page("<script>", "", [], [], [])
    False
    """
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(lead)}</p>"]
    for heading, rows in tables:
        parts.append(f"<h2>{escape(heading)}</h2>\n<div>{_table(rows)}</div>")
    for path in pictures:
        data = b64encode(path.read_bytes()).decode("ascii")
        parts.append(f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{data}">')
    if lines:
        parts.append("<h2>What to know</h2>\n<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>")
    meanings = "".join(f"<li><b>{escape(term)}</b>: {escape(meaning)}</li>" for term, meaning in TERMS.items())
    parts.append(f"<h2>What the words mean</h2>\n<ul>{meanings}</ul>")
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>'
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
    return "<table>" + "\n".join(lines) + "</table>"
