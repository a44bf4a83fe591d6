"""Pictures and page of a trace report: what they say, and that no name in a trace can do more than be read."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from simulator import TraceReport
from simulator.command.app import main
from simulator.tasks.trace_report import words
from simulator.tasks.trace_report.page import page
from simulator.tasks.trace_report.pictures import pictures
from tests.recorded import DATA, DLRM, MADE, Trace, analyse, kernel

FRAGMENTS = [
    *("<script>alert(1)</script>", "</script><script>x</script>", "<img src=x onerror=alert(1)>", "</li></ul><b>"),
    *("</style><svg/onload=x>", "<style>@import url(//x)</style>", "onmouseover=x", "<!--", "-->", "]]>", "<![CDATA["),
    *("&lt;script&gt;", "</title><script>", "<a href=javascript:x>", "<iframe src=//x>", "<base href=//x>", "&#60;b>"),
    *("<meta http-equiv=refresh content=0>", "<link rel=stylesheet href=//x>", "\u2028<script>\u2029", "\r\n<script>"),
    *("\x1b[2J\x1b]0;x\x07<b>", "$x$ {y} %s <i>", "=cmd|' /C calc'!A0<b>", "<object data=//x>💥\u202e"),
]
SURROUNDINGS = ["{}", "a{}b", '">{}', "'>{}", '" {} x="', "--!>{}", "{0}{0}", "<td>{}</td>"]


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.meta: list[dict[str, str | None]] = []
        self.sources: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.meta += [dict(attrs)] if tag == "meta" else []
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "data", "action", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def unknown_decl(self, data: str) -> None:
        self.tags.append("declaration")


def hostile(folder: Path, payloads: list[str]) -> Path:
    """Two ranks in which each payload is all names of a group, and for each payload a broken file of that name."""
    folder.mkdir()
    for rank in range(2):
        events: list[Trace] = []
        for place, payload in enumerate(payloads):
            named = ("Name", "Description", "Ranks")
            about: Trace = {f"Process Group {what}": payload for what in named}
            about |= {"Group size": 3, "Collective name": payload, "dtype": payload}
            name = f"ncclDevKernel_AllReduce {payload}"
            events += [kernel(name, 1000 * k + 100 * place, 50 + rank, **about) for k in range(4)]
            events += [kernel(f"{payload} gemm", 500, 20), kernel(name, 9000, -1)]
        first = payloads[0]
        trace = {
            "distributedInfo": {"rank": rank, "world_size": 2, "backend": first, "hostName": first,
                                "pg_config": [{"pg_name": first, "pg_desc": first}]},
            "deviceProperties": [{"id": 0, "name": first}], "hostName": first, "traceName": first, first: first,
            "traceEvents": events,
        }  # fmt: skip
        (folder / f"{as_file(first)} rank{rank}.json").write_text(json.dumps(trace), encoding="utf-8")
    for rank, payload in enumerate(payloads, 7):
        (folder / f"{as_file(payload)} rank{rank}.json").write_text(f'{{"traceEvents": [{{"{payload}', encoding="utf-8")
    return folder


def as_file(name: str) -> str:
    return name.replace("/", "\u2215")[:40]


def shown(folder: Path, payloads: list[str]) -> tuple[str, str]:
    """The page of a report, without pictures, and what is printed."""
    findings = TraceReport(name=payloads[0], traces=str(hostile(folder, payloads)), broken="skip").find()
    assert len(findings.summary) == len(findings.left_out) == len(payloads)
    assert findings.usable
    title = " ".join(payloads)
    return page(title, words.lead(findings), words.tables(findings), words.lines(findings), []), words.text(findings)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Elements:
    """The page of a report with harmless names."""
    return Elements(shown(tmp_path_factory.mktemp("clean") / "in", [f"tp{i}" for i in range(8)])[0])


@pytest.mark.sampled(30)
@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_names_from_a_trace_do_nothing_on_the_page(fragment: str, tmp_path: Path, clean: Elements) -> None:
    """200 payloads in names of kernels, groups, files, hosts and the experiment, and in what is wrong with files."""
    text, printed = shown(tmp_path / "bad", [surrounding.format(fragment) for surrounding in SURROUNDINGS])
    theirs = Elements(text)
    assert theirs.tags == clean.tags
    assert theirs.attributes == clean.attributes
    assert theirs.meta == clean.meta
    assert not theirs.sources
    assert "script" not in theirs.tags
    assert all(c.isprintable() or c == "\n" for c in printed)
    (policy,) = (meta["content"] for meta in theirs.meta if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["<script>$x$ {y} %s", "\x1b[2J\x1b]0;x\x07\u202e💥"])
def test_names_from_a_trace_do_nothing_in_a_whole_report(payload: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    report = TraceReport(name=payload, traces=str(hostile(tmp_path / "in", [payload])), broken="skip")
    outcome = report.execute(tmp_path / "out")
    assert outcome.ok
    elements = Elements((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert len(elements.sources) == 3
    assert all(source.startswith("data:image/png;base64,") for source in elements.sources)
    assert "script" not in elements.tags


def test_an_error_shows_names_as_text_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile(tmp_path / "in", ["a\x1b[2J\nb<script>"])
    assert main(["+experiment=trace_report", "traces=in"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: traces file ")
    assert said.count("\n") == 1
    assert said.strip().isprintable()


@pytest.mark.slow
def test_the_page_loads_nothing_and_holds_the_pictures(tmp_path: Path) -> None:
    TraceReport(name="my job", traces=str(DLRM)).execute(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    elements = Elements(text)
    assert elements.tags.count("img") == 3
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src &#x27;none&#x27;" in text
    assert "<h1>Synchronization tax: my job</h1>" in text
    assert "522.0 us" in text
    assert not {"script", "link", "iframe", "object", "form", "a"} & set(elements.tags)


@pytest.mark.slow
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
    titles = {p.name: p.title for p in pictures(findings)}
    assert titles["tax_distribution"] == "Of the time in send_recv of stream 84, ranks wait 60.1 %"
    assert titles["stragglers"] == "Without rank 4, send_recv of stream 84 begins 82.0 µs earlier"
    assert titles["cause"] == "Ranks wait for GPUs that idle longer at send_recv of stream 84"


def test_the_picture_of_stragglers_has_every_rank_and_what_it_costs() -> None:
    """Rank 1 is 50 us late in 40 collectives, and rank 3 pauses for 30 ms before one of them."""
    findings = analyse(MADE / "one_long_pause")
    picture = next(p for p in pictures(findings) if p.name == "stragglers")
    assert picture.title == "Without rank 3, all_reduce of stream 20 begins 749 µs earlier"
    last, saved = (panel.table for panel in picture.panels)
    assert last["x"].tolist() == saved["x"].tolist() == [0, 1, 2, 3]
    assert last["y"].tolist() == pytest.approx([0, 97.5, 0, 2.5])
    assert saved["y"].tolist()[3] == pytest.approx(30e3 / 40, rel=0.01)
    assert saved["y"].tolist()[1] == pytest.approx(50, rel=0.15)  # others arrive a few us apart
    waits = next(p for p in pictures(findings) if p.name == "tax_distribution").panels[1]
    assert waits.log_x, "waits of 50 us beside one of 30 ms"


def test_the_distribution_is_the_share_of_collectives_below() -> None:
    findings = analyse(DLRM)
    picture = next(p for p in pictures(findings) if p.name == "tax_distribution")
    curve = picture.panels[0].table
    curve = curve[(curve["series"] == "stream 84, all_reduce") & (curve["style"] == "line")]
    assert curve["y"].tolist() == pytest.approx([0, 100 / 3, 100 / 3, 200 / 3, 200 / 3, 100])
    assert curve["x"].tolist() == pytest.approx(
        sorted(2 * [100 * 151 / 246, 100 * 532 / 602, 100 * 883 / 952]), rel=1e-9
    )


def test_a_page_without_tables_is_a_page() -> None:
    assert Elements(page("a", "b", [], [], [])).tags.count("table") == 0
