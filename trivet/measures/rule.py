"""The rule that chooses the sentence threshold."""

from __future__ import annotations

from dataclasses import dataclass

FALSE_ALARMS = 0.1
"""Rate of false alarms, unless another is asked for."""


@dataclass(frozen=True)
class Rule:
    """The rule that chooses the sentence threshold."""

    # highest rate of flagged responses among the faithful ones, in (0, 1); None chooses the best F1
    # instead
    false_alarms: float | None = FALSE_ALARMS
    # precision to keep while flagging as much as possible, in (0, 1]
    least_precision: float | None = None
    # share of hallucinated responses to assume for F1 and precision, in (0, 1); None means that of
    # the rows
    prior: float | None = None

    def words(self) -> str:
        """Return the rule in one line."""
        if self.false_alarms is not None:
            return (
                f"rule: at most {100 * self.false_alarms:g} % false alarms, of the faithful "
                "responses of each data set"
            )
        aim = "the best F1"
        if self.least_precision is not None:
            aim = f"as many flagged as a precision of {self.least_precision:g} allows"
        share = "as in the rows" if self.prior is None else f"{100 * self.prior:g} %"
        return f"rule: {aim}; hallucinated responses: {share}"
