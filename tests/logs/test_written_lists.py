"""Lists of passages that Python or JSON wrote into a cell; nothing in them is run.

The texts of documents are what langchain-core 1.8.3 and llama-index-core 0.14.25 print.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trivet.errors import ExampleError
from trivet.logs.context_values import read_contexts

LANGCHAIN = (
    "[Document(metadata={'page': 37, 'source': 'a.pdf'}, page_content=\"It's page 3.\"), "
    "Document(id='x', metadata={'on': datetime.datetime(2024, 1, 2, 0, 0)}, page_content='b')]"
)
LLAMA_INDEX = (
    "[NodeWithScore(node=TextNode(id_='443', embedding=None, metadata={'page': 37}, "
    "relationships={<NodeRelationship.SOURCE: '1'>: RelatedNodeInfo(node_id='d', "
    "node_type=<ObjectType.DOCUMENT: '4'>, metadata={}, hash='h')}, metadata_separator='\\n', "
    "text='It has \"rooms\".', mimetype='text/plain', start_char_idx=None), score=-0.5)]"
)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        (LANGCHAIN, ("It's page 3.", "b")),
        (LLAMA_INDEX, ('It has "rooms".',)),
        ("Document(metadata={}, page_content='a')", ("a",)),
        (repr(np.array(["a b", "it's"])), ("a b", "it's")),
        (str(np.array(["a b" * 30, "c"])), ("a b" * 30, "c")),
        (repr(list(np.array(["a", "b"]))), ("a", "b")),
        ('"[\\"a\\", \\"b\\"]"', ("a", "b")),
        ('["{\\"page_content\\": \\"a\\", \\"metadata\\": {\\"page\\": 37}}"]', ("a",)),
    ],
)
def test_documents_and_arrays_are_read_without_their_metadata(
    text: str, texts: tuple[str, ...]
) -> None:
    assert read_contexts(text)[0] == texts


def test_what_is_no_literal_is_refused_and_never_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for text in (
        f"[Document(page_content=open({str(run)!r}, 'w').name)]",
        f"['a', open({str(run)!r}, 'w')]",
        "[Document(page_content=f'{1}')]",
        "[Document(id=1, content: 'a', meta: {})]",
        "['a' ... 'b']",
        "[" + "Document(" * 100_000 + "]",
        "['" + "\\'" * 500_000 + "]",
        "['" + "x" * 1_000_000 + "']",
    ):
        with pytest.raises(ExampleError, match="begins and ends like a list"):
            read_contexts(text)
    assert not run.exists()
