"""Words of values in English: units, currencies, numbers, months and days, and countries."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """A unit; a magnitude in its dimension's base unit is number * factor + offset."""

    dimension: str
    factor: float
    offset: float = 0.0


DEGREES = "degree Celsius"
"""Dimension of temperatures."""
_TABLE: dict[str, dict[float, str]] = {
    "second": {
        1e-3: "ms millisecond milliseconds",
        1: "s sec secs second seconds",
        60: "min mins minute minutes",
        3600: "h hr hrs hour hours",
        86400: "day days",
        604800: "week weeks fortnight",
    },
    "month": {1: "month months", 12: "year years yr yrs", 120: "decade decades"},
    "century": {1: "century centuries"},
    "metre": {
        1e-3: "mm millimetre millimetres millimeter millimeters",
        1e-2: "cm centimetre centimetres centimeter centimeters",
        1: "m metre metres meter meters",
        1e3: "km kilometre kilometres kilometer kilometers",
        0.0254: "inch inches",
        0.3048: "ft foot feet",
        0.9144: "yard yards yd",
        1609.344: "mile miles mi",
    },
    "square metre": {
        1: "m² m2 sqm square_metres",
        0.092903: "sq.ft sqft square_feet",
        1e4: "ha hectare hectares",
        1e6: "km² km2 square_kilometres square_kilometers",
        4046.856: "acre acres",
        2_589_988.0: "square_miles",
    },
    "gram": {
        1e-6: "mcg µg microgram micrograms",
        1e-3: "mg milligram milligrams",
        1: "g gram grams",
        1e3: "kg kilogram kilograms kilo kilos",
        1e6: "tonne tonnes",
        28.3495: "oz ounce ounces",
        453.592: "lb lbs pound pounds",
        907184.74: "ton tons",
    },
    "litre": {
        1e-3: "ml mL millilitre millilitres milliliter milliliters",
        1e-2: "cl centilitre centilitres",
        1: "l L litre litres liter liters dm³",
        1e3: "m³ m3 cubic_metres cubic_meters",
        0.2366: "cup cups",
        0.4732: "pint pints",
        0.9464: "quart quarts",
        3.7854: "gallon gallons",
        0.00493: "tsp teaspoon teaspoons",
        0.01479: "tbsp tablespoon tablespoons",
    },
    "byte": {
        1: "B byte bytes",
        1e3: "kB KB kilobyte kilobytes",
        1e6: "MB megabyte megabytes",
        1e9: "GB gigabyte gigabytes",
        1e12: "TB terabyte terabytes",
    },
    "watt": {1: "W watt watts", 1e3: "kW kilowatt kilowatts", 1e6: "MW megawatt megawatts"},
    "watt hour": {1: "Wh", 1e3: "kWh", 1e6: "MWh"},
    "volt": {1: "V volt volts"},
    "hertz": {1: "Hz hertz", 1e3: "kHz", 1e6: "MHz", 1e9: "GHz"},
    "metre per second": {
        1: "m/s",
        1 / 3.6: "km/h kph kilometres_per_hour",
        0.44704: "mph miles_per_hour",
    },
    "ratio": {
        0.01: "% percent per-cent per_cent percentage percentage_point",
        1e-4: "bp bps basis_points",
    },
    "dollar": {1: "dollar dollars USD", 0.01: "cent cents"},
    "euro": {1: "euro euros EUR"},
    "pound sterling": {1: "GBP"},
    "yen": {1: "yen JPY"},
    "rupee": {1: "rupee rupees INR"},
}
UNIT_WORDS: dict[str, Unit] = {
    word.replace("_", " "): Unit(dimension, factor)
    for dimension, line in _TABLE.items()
    for factor, words in line.items()
    for word in words.split()
} | {
    **dict.fromkeys(("°C", "degrees Celsius", "degrees C", "°c"), Unit(DEGREES, 1.0)),
    **dict.fromkeys(
        ("°F", "degrees Fahrenheit", "degrees F", "°f"), Unit(DEGREES, 5 / 9, -160 / 9)
    ),
}
CURRENCIES: dict[str, str] = {
    **{"US$": "dollar", "$": "dollar", "USD": "dollar", "€": "euro", "EUR": "euro"},
    **{"£": "pound sterling", "GBP": "pound sterling", "¥": "yen", "JPY": "yen"},
    **{"₹": "rupee", "INR": "rupee"},
}
_FOLDED = {word.casefold(): unit for word, unit in UNIT_WORDS.items()}


def unit_of(word: str) -> Unit:
    """Return the unit of a word in ``UNIT_WORDS``, in any case."""
    return UNIT_WORDS.get(word) or _FOLDED[word.casefold()]


ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = {
    **{"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12},
    **{"k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, "tn": 1e12, "dozen": 12.0},
    **{"mm": 1e6, "lakh": 1e5, "crore": 1e7},
}
NUMBER_WORDS = {
    **{word: float(number) for number, word in enumerate(ONES)},
    **{word: 10.0 * number for number, word in enumerate(TENS, 2)},
    "dozen": 12.0,
}
DECADES = tuple(f"{ten[:-1]}ies" for ten in TENS)
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth"),
    *("eighteenth", "nineteenth", "twentieth"),
)
ORDINALS = {word: number for number, word in enumerate(_ORDINALS[2:], 3)}
ORDINALS |= {
    f"{ten}-{word}": 10 * tens + digit
    for tens, ten in enumerate(TENS, 2)
    for digit, word in enumerate(_ORDINALS[:9], 1)
}
FRACTIONS = {
    **{"half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "tenth": 1 / 10},
    **{"thirds": 1 / 3, "quarters": 1 / 4, "fifths": 1 / 5, "tenths": 1 / 10},
}
VULGAR = {"½": 1 / 2, "⅓": 1 / 3, "⅔": 2 / 3, "¼": 1 / 4, "¾": 3 / 4, "⅕": 1 / 5, "⅛": 1 / 8}

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
MONTH_NUMBERS = {name: at for at, name in enumerate(MONTHS, 1)}
MONTH_NUMBERS |= {name[:3]: at for name, at in MONTH_NUMBERS.items()} | {"sept": 9}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTRIES = """
    british:britain chinese:china cuban:cuba danish:denmark dutch:netherlands english:england
    finnish:finland french:france irish:ireland italian:italy norwegian:norway polish:poland
    scottish:scotland spanish:spain swedish:sweden swiss:switzerland turkish:turkey welsh:wales
"""
DEMONYMS = dict(pair.split(":") for pair in _COUNTRIES.split())
