"""Text of the chunks that LLM libraries stream, told apart by their fields."""

from __future__ import annotations

from typing import Any


def text_of(chunk: Any) -> str:
    """Return the text of a chunk; empty for one that carries none, such as usage or a tool call.

    Known are strings, the chunks of OpenAI's chat completions, completions and responses, the
    message chunks of LangChain, and the responses and events of LlamaIndex.

    Raises:
        TypeError: The chunk is of another kind.
    """
    if chunk is None or isinstance(chunk, str):
        return chunk or ""
    if isinstance(choices := getattr(chunk, "choices", None), list):  # OpenAI, chat or text
        # Further choices are other answers.
        first = next((each for each in choices if getattr(each, "index", 0) == 0), None)
        delta = getattr(first, "delta", None)
        text = getattr(first, "text", None) if delta is None else getattr(delta, "content", None)
        return text or ""
    if isinstance(kind := getattr(chunk, "type", None), str) and kind.startswith("response."):
        return str(chunk.delta) if kind == "response.output_text.delta" else ""
    if hasattr(chunk, "content"):  # LangChain
        content = chunk.content
        blocks = [content] if isinstance(content, str) else content
        return "".join(_block_text(block) for block in blocks)
    if hasattr(chunk, "delta"):  # LlamaIndex
        return chunk.delta or ""
    raise TypeError(
        f"a chunk of type {type(chunk).__name__} has no text that is known; give strings, such as "
        "guard((chunk.text for chunk in stream), ...)"
    )


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    return str(block.get("text", "")) if block.get("type", "text") == "text" else ""
