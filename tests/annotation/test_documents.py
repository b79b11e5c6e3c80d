"""Documents of a folder: their passages, and the pools that questions are asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet.annotation.questions import read_pools
from trivet.errors import DataError

SENTENCE = "The mill in the valley was built by Lee, and its wheels have turned ever since. "


def write_pdf(path: Path, lines: list[str]) -> None:
    """Write a PDF of one page; pypdf writes no text itself."""
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    content = f"BT /F1 12 Tf 14 TL 50 700 Td {shown} ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    written, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(written))
        written += b"%d 0 obj%s endobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 6\n0000000000 65535 f \n" + table
    end = b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(written)
    path.write_bytes(written + table + end)


def test_passages_are_in_the_order_of_the_document_and_no_longer_than_asked(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number}. {SENTENCE}" for number in range(30))
    (tmp_path / "a.txt").write_text(text)
    (pool,) = read_pools(tmp_path, 300)
    assert [passage.number for passage in pool.passages] == list(range(len(pool.passages)))
    assert all(80 <= len(passage.text) <= 300 for passage in pool.passages)
    places = [text.index(passage.text) for passage in pool.passages]
    assert places == sorted(places)


def test_markdown_is_cut_at_headings(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"# One\n\n{SENTENCE * 2}\n\n# Two\n\n{SENTENCE * 2}\n")
    (pool,) = read_pools(tmp_path, 200)
    assert [passage.text[:5] for passage in pool.passages] == ["# One", "# Two"]


def test_pdf_text_is_read_and_words_divided_at_line_ends_are_joined(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.PDF", [SENTENCE, "It has a remark-", "able roof."])
    (pool,) = read_pools(tmp_path)
    assert "built by Lee" in pool.passages[0].text
    assert "remarkable roof" in pool.passages[0].text


def test_long_documents_are_pools_and_short_ones_are_joined(tmp_path: Path) -> None:
    for name in ("b/long", "c/longer"):
        paragraphs = (f"{name} {number}. {SENTENCE * 2}" for number in range(20))
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.txt").write_text("\n\n".join(paragraphs))
    for number in range(15):
        (tmp_path / f"a{number:02}.txt").write_text(f"Short {number}. {SENTENCE}")
    (tmp_path / "d.txt").write_text(f"Last. {SENTENCE}")
    pools = read_pools(tmp_path, 200)
    assert [pool.name for pool in pools] == ["a00.txt", "a12.txt", "c/longer.txt"]
    assert {p.document for p in pools[0].passages} == {f"a{n:02}.txt" for n in range(12)}
    assert {p.document for p in pools[-1].passages} == {"c/longer.txt", "d.txt"}


def test_a_passage_is_in_one_pool_only(tmp_path: Path) -> None:
    notice = f"All rights are reserved. {SENTENCE}"
    for name in ("a.txt", "b.txt"):
        paragraphs = (f"{name} {number}. {SENTENCE}" for number in range(14))
        (tmp_path / name).write_text("\n\n".join([notice, *paragraphs]))
    pools = read_pools(tmp_path, 150)
    texts = [passage.text for pool in pools for passage in pool.passages]
    assert len(pools) == 2
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("bad.pdf", b"%PDF-1.4\n nothing else", "bad.pdf is skipped: it cannot be read as PDF"),
        ("none.pdf", b"", "none.pdf is skipped: it cannot be read as PDF"),
        ("bad.txt", b"caf\xe9 " * 50, "bad.txt is skipped: it is not UTF-8 at byte 3"),
        ("short.md", b"# Title", "short.md is skipped: it has no passage of 80 characters"),
    ],
)
def test_an_unreadable_document_is_skipped_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.txt").write_text(SENTENCE * 3)
    (pool,) = read_pools(tmp_path)
    assert {passage.document for passage in pool.passages} == {"good.txt"}
    assert reason in caplog.text


def test_a_pdf_of_pictures_is_skipped_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_pdf(tmp_path / "a.pdf", [])
    with pytest.raises(DataError, match="none of its 1 documents has a passage of text"):
        read_pools(tmp_path)
    assert "it has no text" in caplog.text


def test_a_folder_without_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b")
    with pytest.raises(DataError, match=r"no file in it ends in \.txt, \.md, \.markdown, \.pdf"):
        read_pools(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        read_pools(tmp_path / "missing")
