"""Pictures and page of a trace report: what they say, and that no name in a trace can do more than be read."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from simulator.traces import TraceReport
from simulator.traces.page import page
from simulator.traces.pictures import pictures
from tests.traces import DATA, DLRM, Trace, analyse, job, kernel

PAYLOADS = [
    *(
        "<script>alert(1)</script>",
        "</script><script>x</script>",
        "<img src=x onerror=alert(1)>",
        "</style><svg/onload=x>",
    ),
    *('" onmouseover="x', "' onfocus='x", "<!--", "]]>", "&lt;script&gt;", "</title><script>", "javascript:x"),
    *("<iframe src=//x>", "<base href=//x>", "<meta http-equiv=refresh content=0>", "<link rel=stylesheet href=//x>"),
    *(
        "\u2028<script>\u2029",
        "\x1b[2J\x1b]0;x\x07",
        "\r\n<script>",
        "$x$ {y} %s",
        "=cmd|' /C calc'!A0",
        "💥" * 40,
        "\u202e",
    ),
]


class Elements(HTMLParser):
    """Counts what a browser would make of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


def hostile(folder: Path, payload: str) -> Path:
    """Two ranks whose names are all ``payload``."""
    name = f"ncclDevKernel_AllReduce {payload}"
    about: Trace = {"Process Group Name": payload, "Process Group Description": f"{payload} {payload}", "Group size": 2}
    return job(folder, {rank: [kernel(name, 1000 * k, 50 + rank, **about) for k in range(4)] for rank in range(2)})


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_from_a_trace_do_nothing_on_the_page(payload: str, tmp_path: Path) -> None:
    clean, bad, out = (tmp_path / name for name in ("clean", "bad", "out"))
    for folder in (clean, bad, out):
        folder.mkdir()
    for folder, name in ((clean, "tp"), (bad, payload)):
        (out / folder.name).mkdir()
        outcome = TraceReport(name="test", traces=str(hostile(folder, name))).execute(out / folder.name)
        assert outcome.ok
        assert all(c.isprintable() or c == "\n" for c in outcome.text)
    ours, theirs = (Elements((out / name / "report.html").read_text(encoding="utf-8")) for name in ("clean", "bad"))
    assert theirs.tags == ours.tags
    assert theirs.attributes == ours.attributes
    assert "script" not in theirs.tags


def test_the_page_loads_nothing_and_holds_the_pictures(tmp_path: Path) -> None:
    TraceReport(name="my job", traces=str(DLRM)).execute(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    elements = Elements(text)
    assert elements.tags.count("img") == 3
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src &#x27;none&#x27;" in text
    assert "<h1>my job</h1>" in text
    assert "522.0 us" in text
    assert not {"script", "link", "iframe", "object", "form", "a"} & set(elements.tags)


def test_the_same_traces_give_the_same_page_and_pictures(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        TraceReport(name="test", traces=str(DLRM)).execute(tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_a_report_without_a_tax_has_a_page_but_no_pictures(tmp_path: Path) -> None:
    TraceReport(name="test", traces=str(DATA / "hta_sampled_2of128")).execute(tmp_path)
    assert not list(tmp_path.glob("*.png"))
    assert "ends do not agree" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_pictures_say_what_was_found() -> None:
    findings = analyse(DLRM)
    titles = {p.name: p.title for p in pictures(findings.summary, findings.tax, findings.apart)}
    assert titles["tax_distribution"] == "Of the time in all_reduce of stream 84, ranks wait 82.8 %"
    assert titles["stragglers"] == "Rank 4 is last in 3 of 3 all_reduce of stream 84"


def test_the_distribution_is_the_share_of_collectives_below() -> None:
    findings = analyse(DLRM)
    picture = next(p for p in pictures(findings.summary, findings.tax, findings.apart) if p.name == "tax_distribution")
    curve = picture.panels[0].table
    curve = curve[(curve["series"] == "stream 84, all_reduce") & (curve["style"] == "line")]
    assert curve["y"].tolist() == pytest.approx([0, 100 / 3, 100 / 3, 200 / 3, 200 / 3, 100])
    assert curve["x"].tolist() == pytest.approx(
        sorted(2 * [100 * 151 / 246, 100 * 532 / 602, 100 * 883 / 952]), rel=1e-9
    )


def test_a_page_without_tables_is_a_page() -> None:
    assert Elements(page("a", "b", [], [], [])).tags.count("table") == 0
