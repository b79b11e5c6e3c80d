"""A verdict as a notebook shows it: drawn as on a page, of what the verdict alone holds."""

from __future__ import annotations

from trivet.records import Evaluation
from trivet.report.answer import read_answer
from trivet.report.environment import ENVIRONMENT
from trivet.report.verdict_row import VerdictRow


def to_html(verdict: Evaluation) -> str:
    """Return a piece of HTML without any script; texts are the sentences of the verdict."""
    row = VerdictRow(row=1, id=verdict.id, verdict=verdict.to_dict())
    return ENVIRONMENT.get_template("notebook.html").render(answer=read_answer(row))
