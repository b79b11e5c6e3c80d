"""Values: which words are one, which of them are equal, and where they stand in the contexts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.steps import calls_of
from trivet.data.claims import role_of, sentence_roles
from trivet.data.sentence_features import ContextValues, FoundValue
from trivet.data.sentences import split_sentences
from trivet.data.values import find_values
from trivet.data.written_forms import blank_markup


def values_of(text: str) -> list[tuple[str, str]]:
    return [(text[v.span.start : v.span.end], v.kind) for v in find_values(text)]


def statuses(response: str, *contexts: str, near: int = 0) -> list[str]:
    index = ContextValues(contexts, "", contexts)
    return [index.find(value, {near}).status for value in find_values(response)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It has 4 wheels.", [("4", "number")]),
        ("It has fıve wheels.", [("fıve", "number")]),
        ("It opened in aprıl 1990.", [("aprıl 1990", "time")]),
        ("It has **4** wheels.", [("4", "number")]),
        ("It weighs 5 km.", [("5 km", "quantity")]),
        ("It opens at 6 pm.", [("6 pm", "time")]),
        ("It opens on 20 February.", [("20 February", "time")]),
        ("It opened on 20 Feb. 1990.", [("20 Feb. 1990", "time")]),
        ("They met Ilse Tamm there.", [("Ilse Tamm", "name")]),
        ("The head of NATO came.", [("NATO", "name")]),
        ("It&#8217;s from <P>here</P><!-- 1812 -->.", []),
        ("The rent is &euro;640.", [("&euro;640", "quantity")]),
        ("1. Open the lid.", []),
        ("As passage 3 says, it is old [1].", []),
        ("In step 2, open it.", []),
        ("Rooms: 120.", [("120", "number")]),
        ("Do so: 1. Open it.", []),
        ("It took five and ten hours.", [("five", "number"), ("ten hours", "quantity")]),
        ("It has two hundred and five seats.", [("two hundred and five", "number")]),
        ("It is of the twenty-first century.", [("twenty-first", "number")]),
        ("I’ve seen that.", []),
        ("It costs 4 euros an hour.", [("4 euros", "quantity")]),
        ("It took an hour.", [("an hour", "quantity")]),
        ("Opening Hours: see below.", []),
        ("See the lines 1,6 and 8.", [("8", "number")]),  # a decimal comma, or two numbers
        ("It runs v2.1.3 at 10.0.4.12.", [("v2.1.3", "name"), ("10.0.4.12", "name")]),
        ("It is old and red.", []),
    ],
)
def test_what_is_a_value(text: str, values: list[tuple[str, str]]) -> None:
    assert values_of(text) == values


@pytest.mark.parametrize(
    ("response", "context"),
    [
        ("It cost 1,000 euros.", "It cost 1000 euros."),
        ("It cost 1,000 euros.", "It cost 1 000 euros."),
        ("It cost 1'000 euros.", "It cost 1\u2009000 euros."),
        ("It cost 1.250,50 euros.", "It cost 1,250.50 euros."),
        ("It is 1.6 mm thick.", "It is 1,6 mm thick."),
        ("It had 16,181 users.", "It had 16.181 users."),
        ("It cost $3.2 million.", "It cost $3.2MM."),
        ("It cost ₹120,000.", "It cost 1.2 lakh rupees, or ₹1,20,000."),
        ("It was the third quarter of 2024.", "It was in Q3 2024."),
        ("It was in the 1990s.", "It was in the '90s."),
        ("It was in the nineties.", "It was in the 1990s."),
        ("It leaves at 18:30.", "It leaves at half past six in the evening."),
        ("It leaves at 6.30 pm.", "It leaves at 18h30."),
        ("It was on 4 March 2021.", "It was on 03/04/2021."),
        ("It was on 3 April 2021.", "It was on 03/04/2021."),
        ("It holds 5 million.", "It holds 5 × 10^6."),
        ("It holds 3e-3 mol.", "It holds 0.003 mol."),
        ("It holds 3,000 litres.", "It holds 3 m³."),
        ("It rose by 25 basis points.", "It rose by 0.25 %."),
        ("It lost 1,234 euros.", "Income: (1,234) euros."),
        ("It runs version 2.1.3.", "It runs v2.1.3."),
        ("It has fast WiFi.", "It has fast Wi-Fi."),
        ("It has one thousand seats.", "It has 1,000 seats."),
        ("It opened on 15 Jan 1967.", "It opened on January 15th, 1967."),
        ("It opened on 1967-01-15.", "It opened on 15 January 1967."),
        ("It opens at 6 pm.", "It opens at 18:00."),
        ("It is 5 km long.", "It is 5,000 m long."),
        ("Heat it to about 356 °F.", "Heat it to 180 °C."),
        ("It has four wheels.", "It has **4** wheels."),
        ("A half of them left.", "½ of them left."),
        ("It rose by 12 percent.", "It rose by 12%."),
        ("It cost $2 billion.", "It cost $2B."),
        ("It has 10 million users.", "It has 10M users."),
        ("The FBI came.", "The Federal Bureau of Investigation came."),
        ("They met Canadians.", "They met in Canada."),
        ("They met Beyoncé.", "They met Beyonce."),
        ("It is 5 miles long.", "It is 8 km long."),
        ("It costs 5 pounds.", "It costs £5."),
        ("It opens at 7:30 pm.", "It opens at 7:30."),
        ("It opens at 7 o'clock.", "It opens at 19:00."),
        ("It takes 2 1/2 cups.", "It takes 2.5 cups."),
        ("It takes two and a half hours.", "It takes 150 minutes."),
        ("It takes an hour and a half.", "It takes 90 minutes."),
        ("A half of the cup is full.", "Fill 1/2 of it."),
        ("It lasted 1990-95.", "It lasted from 1990 to 1995."),
        ("It takes half an hour.", "It takes 30 minutes."),
        ("It takes three quarters of an hour.", "It takes 45 minutes."),
        ("Add 3/4 cup.", "Add 0.75 cups."),
        ("It has a hundred seats.", "It has 100 seats."),
        ("It closes at six o'clock.", "It closes at 18:00."),
        ("It is minus 5 °C.", "It is -5 °C."),
        ("It is of 44 B.C.", "It is of 44 BC."),
        ("It rose by a quarter of a percentage point.", "It rose by 25 basis points."),
        ("It fell by 2.5%.", "It moved by \u22122.5%."),
        ("He is a Danish baker.", "He came from Denmark."),
        ("It is double the size.", "It is twice as large."),
    ],
)
def test_other_forms_of_a_value_are_equal(response: str, context: str) -> None:
    assert set(statuses(response, context)) == {"near"}, find_values(response)
    assert set(statuses(context, response)) == {"near"}, find_values(context)


@pytest.mark.parametrize(
    ("response", "context"),
    [
        ("It cost 1,000 euros.", "It cost 1,001 euros."),
        ("It opened on 15 Jan 1967.", "It opened on January 16th, 1967."),
        ("It opens at 6 pm.", "It opens at 6 am."),
        ("It is 5 km long.", "It is 500 m long."),
        ("They met Ilse Tamm.", "They met Pavel Orlik."),
        ("They met in Austria.", "They met in Australia."),
        ("It rose by 12 percent.", "It rose by 1.2%."),
        ("It takes one hour.", "It takes 45 minutes."),
        ("It lasts one year.", "It lasts 9 months."),
        ("It opens at 7:30 am.", "It opens at 7:30 pm."),
        ("It lasted 1990-95.", "It lasted from 1990 to 1993."),
        ("It takes 2 1/2 cups.", "It takes 2 cups."),
        ("It is 5 °C.", "It is -5 °C."),
        ("It takes half an hour.", "It takes half a day."),
        ("It opens at 6 am.", "It opens at 6-9 pm."),
        ("It is of the 1980s.", "It opened in 1990."),
        ("It moved by +2.5%.", "It moved by -2.5%."),
        ("It is twice as fast.", "It is three times as fast."),
    ],
)
def test_other_values_are_nowhere(response: str, context: str) -> None:
    assert "nowhere" in statuses(response, context)


def test_small_numbers_are_found_in_words() -> None:
    # "one" and "second" are not values of their own: they are a pronoun and an adverb too.
    assert statuses("It has 2 wheels.", "It has two wheels.") == ["near"]
    assert statuses("He came 2nd.", "He came second.") == ["near"]
    assert statuses("It has 2 wheels.", "It has one wheel.") == ["nowhere"]
    assert statuses("It has two wheels.", "It has 2 wheels.") == []


def test_a_value_of_the_response_may_be_part_of_one_in_the_contexts() -> None:
    assert statuses("It opened in the 1990s.", "It opened in 1994.") == ["near"]
    assert statuses("It is open at 6 pm.", "It is open 6-9 pm.") == ["near"]
    assert statuses("It opens at 10 am.", "It is open 10 to 2 pm.") == ["near"]
    assert statuses("He met the FBI and CIA.", "He met the FBI, CIA.") == ["near"]


def test_figures_below_a_head_in_thousands_may_be_told_in_full() -> None:
    table = "Net income (in thousands): 1,234 in spring, 60 in autumn."
    assert statuses("It earned 1,234 thousand and $0.06 million.", table) == ["near", "near"]
    assert statuses("It earned 1,234 million.", table) == ["nowhere"]


def test_a_value_of_another_sentence_is_elsewhere() -> None:
    contexts = "Parcels come back within 30 days.", "Refunds take 5 days."
    assert statuses("You have 5 days.", *contexts, near=0) == ["elsewhere"]
    assert statuses("You have 5 days.", *contexts, near=1) == ["near"]


HOSTILE = st.text(
    st.sampled_from("12,.:/-% ٣٤²½٠\u200b\ud800é\u0301<b&;`*_[](#|~\n\r€kmpAaBNATO")
    | st.characters(),
    max_size=80,
)


@given(HOSTILE)
@settings(max_examples=200)
def test_no_text_raises_and_no_span_leaves_its_text(text: str) -> None:
    values = find_values(text)
    ends = [0, *(value.span.end for value in values)]
    for value, before in zip(values, ends, strict=False):
        assert before <= value.span.start < value.span.end <= len(text)
    index = ContextValues([text], text, [text])
    assert [index.find(value, {0}).value for value in values] == values
    role_of(text)
    assert len(sentence_roles(text, split_sentences(text))) == len(split_sentences(text))


@given(HOSTILE)
@settings(max_examples=200)
def test_blanked_markup_keeps_every_offset(text: str) -> None:
    blank = blank_markup(text)
    assert len(blank) == len(text)
    assert blank_markup("The mill is old.") == "The mill is old."
    kept = [(old, new) for old, new in zip(text, blank, strict=True) if old != new]
    assert all(not old.isalnum() or new == " " or text.count("&") for old, new in kept)


@pytest.mark.parametrize(
    "word", ["{} cm, ", "5 cm, ", "1,000 of Ilse Tamm, ", "3 May 1987, ", "a*_`["]
)
def test_many_values_take_linear_time(word: str) -> None:
    def judge(count: int) -> Callable[[], list[FoundValue]]:
        text = "".join(word.format(number) for number in range(count))

        def run() -> list[FoundValue]:
            index = ContextValues([text], text, [text, text])
            return [index.find(value, {0}) for value in find_values(text)]

        return run

    assert calls_of(judge(1000)) < 2.5 * calls_of(judge(500)) + 1000
