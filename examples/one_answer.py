"""Evaluate one answer and underline the characters that no passage supports.

    python examples/one_answer.py

This prints:

    faithfulness    0.6
    supported_share 0.5
    relevance       0.3
    utilization     0.2

    The crossing takes eighteen minutes. Tickets are sold on board for nine euros.
                                                                       ^^^^^^^^^^

    [1] relevance 0.3
    [2] relevance 0.3
    [3] relevance 0.3
"""

from __future__ import annotations

import trivet

QUESTION = "How long is the ferry crossing, and can I take a bicycle?"
CONTEXTS = [
    "The ferry between the two piers runs every half hour. The crossing takes eighteen minutes.",
    "Foot passengers may take a bicycle on board free of charge. Dogs must be kept on a lead.",
    "The lighthouse on the north pier was painted red in 1931.",
]
RESPONSE = "The crossing takes eighteen minutes. Tickets are sold on board for nine euros."


def main() -> None:
    """Evaluate, then print the scores and the response with its unsupported parts underlined."""
    verdict = trivet.evaluate(question=QUESTION, contexts=CONTEXTS, response=RESPONSE)
    for name in ("faithfulness", "supported_share", "relevance", "utilization"):
        print(f"{name:16}{getattr(verdict, name):.1f}")
    print()
    print(RESPONSE)
    marks = [" "] * len(RESPONSE)
    for span in verdict.unsupported:
        marks[span.start : span.end] = "^" * (span.end - span.start)
    print("".join(marks).rstrip() or "(nothing unsupported was found)")
    print()
    for number, context in enumerate(verdict.contexts, start=1):
        relevance = "none" if context.relevance is None else f"{context.relevance:.1f}"
        print(f"[{number}] relevance {relevance}")


if __name__ == "__main__":
    main()
