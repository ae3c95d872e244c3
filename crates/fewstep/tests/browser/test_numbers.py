"""Numbers are rounded as the command line rounds them, halves included."""

from __future__ import annotations

import random
import struct

from playwright.sync_api import Page
from support import number

KNOWN = {
    0.41237: "0.412",
    0.00182: "0.00182",
    0.09999: "0.100",
    -12.0: "-12.0",
    12345.0: "12345",
    2.5e-7: "2.50e-7",
    0.0: "0",
    1.125: "1.12",
    1.375: "1.38",
    2.5e-5 / 2: "1.25e-5",
    1000.5: "1000",
    1001.5: "1002",
    0.03125: "0.0312",
    99999.4: "1.00e5",
    123456.0: "1.23e5",
    -0.0625: "-0.0625",
    1e300: "1.00e300",
    5e-324: "4.94e-324",
}


NUMBERS = """async (values) => {
    const { number } = await import("/page/numbers.js");
    return values.map(number);
}"""


def test_known_roundings(page: Page, service: str) -> None:
    page.goto(service)
    values = list(KNOWN)
    assert page.evaluate(NUMBERS, values) == list(KNOWN.values())
    assert page.evaluate("async () => (await import('/page/numbers.js')).number(NaN)") == "–"


def test_random_numbers_are_rounded_as_elsewhere(page: Page, service: str) -> None:
    generator = random.Random(10)
    values = [struct.unpack("d", generator.randbytes(8))[0] for _ in range(2000)]
    values = [value for value in values if value == value and abs(value) != float("inf")]
    values += [generator.uniform(-2, 2) * 10 ** generator.randint(-7, 7) for _ in range(4000)]
    # Halves: integers over powers of two.
    values += [generator.randint(1, 4096) / 2 ** generator.randint(1, 16) for _ in range(4000)]
    page.goto(service)
    assert page.evaluate(NUMBERS, values) == [number(value) for value in values]
