"""Scripted right answers for all judges that ask an LLM, and the call that judges by a script."""

from __future__ import annotations

import json
from typing import Any

from research.compare.judges import JUDGES
from research.compare.prompts import prompt_system
from research.compare.systems import Score, Setup
from tests.llm.scripted_endpoint import Script, ScriptedEndpoint
from trivet.llm.chat_client import ChatClient
from trivet.records import RagExample

EXAMPLE = RagExample(
    "When was the mill built?",
    ("The mill was built in 1817.", "It is in the north."),
    "The mill was built in 1817. It is made of wood.",
)
SENTENCES = ["The mill was built in 1817.", "It is made of wood."]


def by_text(**replies: str) -> Script:
    """Return a script that answers by the first key that the request holds."""

    def reply(body: dict[str, Any]) -> str:
        text = " ".join(message["content"] for message in body["messages"])
        return next(answer for key, answer in replies.items() if key.replace("_", " ") in text)

    return reply


def statements(*values: Any) -> str:
    judged = [
        {"statement": text, "reason": "", "verdict": value}
        for text, value in zip(SENTENCES, values, strict=True)
    ]
    return f"```json\n{json.dumps({'statements': judged})}\n```"


RAGAS = {"Break_down": json.dumps({"statements": SENTENCES})}
TLM = {
    "between_0-100_indicating": "<score>\n80\n</score>",
    "between_0-10_indicating": "<score>5</score>",
    "measure_the_difficulty": "<choice>\nYes\n</choice>",
}
RIGHT: dict[str, tuple[Script, float, bool | None, int]] = {
    "ragas": (by_text(**RAGAS, judge_the_faithfulness=statements(1, 0)), 0.5, None, 2),
    "trulens": (
        by_text(
            ALL_STATEMENTS=str(SENTENCES),
            **{"STATEMENT:_The": '{"criteria": "", "supporting_evidence": "", "score": 3}'},
            STATEMENT='{"score": 1}',
        ),
        2 / 3,
        None,
        3,
    ),
    "selfcheck": (
        by_text(
            Answer_the_question="The mill was built in 1817.",
            **{"Sentence:_The": "Yes", "Sentence:_It": "No."},
        ),
        0.5,
        None,
        5 + 2 * 5,
    ),
    "likert": (by_text(Evaluate="Explanation: score: 2 of the facts.\nScore: 4"), 0.75, None, 1),
    "chainpoll": (lambda body: "No.\nVerdict: no", 1.0, False, 5),
    "lynx": (by_text(DOCUMENT='{"REASONING": ["one"], "SCORE": FAIL}'), 0.0, True, 1),
    "prometheus": (by_text(Rubrics="Mostly grounded. [RESULT] 4"), 0.75, None, 1),
    "tlm": (by_text(**TLM), (0.578 * (0.8 + 0.5 + 0.8) / 3 + 0.06) / 0.638, None, 4),
}


def judged(
    name: str, script: Script, example: RagExample = EXAMPLE
) -> tuple[Score, list[dict[str, Any]]]:
    """Return the score of an example, and the bodies of the requests."""
    with (
        ScriptedEndpoint(script) as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
    ):
        system = prompt_system(name, JUDGES[name], "scripted", Setup(open_llm=lambda _: client))
        return system.score(example), endpoint.bodies
