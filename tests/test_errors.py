"""Words of messages: pydantic's own never show."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trivet.errors import fault_words


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    count: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    name: Annotated[str, Field(min_length=2, max_length=4)] = "ab"
    kind: Literal["a", "b"] = "a"
    items: list[int] = []
    about: dict[str, int] = {}
    yes: bool = True

    @field_validator("name")
    @classmethod
    def _check(cls, name: str) -> str:
        if name == "xx":
            raise ValueError("xx is taken")
        return name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"count": 0}, "count: must be at least 1"),
        ({"count": 10}, "count: must be at most 9"),
        ({"count": "x"}, "count: must be a whole number"),
        ({"share": 0.0}, "share: must be above 0"),
        ({"share": 1.0}, "share: must be below 1"),
        ({"share": "x"}, "share: must be a number"),
        ({"name": 5}, "name: must be a string"),
        ({"name": "xx"}, "name: xx is taken"),
        ({"kind": "c"}, "kind: must be 'a' or 'b'"),
        ({"items": 5}, "items: must be a list"),
        ({"about": 5}, "about: must be an object"),
        ({"yes": 5}, "yes: must be true or false"),
        ({"more": 5}, "more: unknown"),
        ([], "must be an object"),
        ({"items": ["x", "y"]}, "items.0: must be a whole number; and 1 more"),
    ],
)
def test_faults_are_in_plain_words(given: Any, words: str) -> None:
    with pytest.raises(ValidationError) as error:
        Part.model_validate(given)
    assert fault_words(error.value, 1).startswith(words)
    assert fault_words(error.value, 1, ("body",)).startswith("body")
