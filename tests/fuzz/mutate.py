"""Inputs made from valid ones: bytes that are damaged, JSON whose parts are exchanged, text whose words are.

Everything comes from the `random.Random` that is handed in, so that a seed and a number name an input for ever.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

EXTREMES = (0, 1, -1, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64)
FRAGMENTS = (
    b"\0",
    b"\xff" * 8,
    b"\x80" * 12,
    b"\x1f\x8b",
    b"PAR1",
    b"Obj\x01",
    b"../",
    b"%2e%2e/",
    b"null",
    b"NaN",
    b"1e999",
    b"-",
    b"9" * 40,
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"\x1b[31m",
    b"\n",
    b"{",
    b"[" * 40,
    b"\xed\xa0\x80",
    b"\xc3(",
)
_NUMBER = re.compile(rb"-?\d+")
_NESTED = re.compile(rb'"@nested:(\d+)@"')
_LARGEST_INPUT = 1 << 20


def damage_bytes(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The bytes after one to four mutations; now and then nothing but noise."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.choice((0, 1, 3, 16, 100, 5000)))
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        mutation = rng.choice(_BYTE_MUTATIONS)
        found = mutation(rng, found, others)[:_LARGEST_INPUT]
    return bytes(found)


def _span(rng: random.Random, size: int) -> slice:
    start = rng.randrange(size + 1)
    return slice(start, min(size, start + rng.choice((1, 2, 4, 8, 16, 64, 256, 4096))))


def _flip_bit(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _set_byte(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data


def _truncate(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    return data[: rng.randrange(len(data) + 1)]


def _delete(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    del data[_span(rng, len(data))]
    return data


def _duplicate(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    span = _span(rng, len(data))
    return data[: span.stop] + data[span] * rng.choice((1, 1, 2, 50)) + data[span.stop :]


def _swap(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    first, second = sorted((_span(rng, len(data)), _span(rng, len(data))), key=lambda span: span.start)
    if first.stop > second.start:
        return data
    return data[: first.start] + data[second] + data[first.stop : second.start] + data[first] + data[second.stop :]


def _splice(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    other = rng.choice(others) if others else bytes(data)
    place = rng.randrange(len(data) + 1)
    return data[:place] + other[_span(rng, len(other))] + data[place + rng.choice((0, 0, 4, 64)) :]


def _insert_fragment(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(FRAGMENTS) + data[place:]


def _blow_up_number(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    """A number in text, or in four or eight bytes, as an extreme."""
    value = rng.choice(EXTREMES) * rng.choice((1, 1, -1))
    if numbers := list(_NUMBER.finditer(data)):
        number = rng.choice(numbers)
        if rng.random() < 0.7:
            return data[: number.start()] + str(value).encode() + data[number.end() :]
    place, width = rng.randrange(len(data) + 1), rng.choice((2, 4, 8))
    order = rng.choice(("little", "big"))
    data[place : place + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, order)
    return data


def _long_varint(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> bytearray:
    """A number as Avro and Thrift write it, in place of a byte: a length blown up."""
    value = abs(rng.choice(EXTREMES))
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    place = rng.randrange(len(data) + 1)
    return data[:place] + written + bytes([value]) + data[place + 1 :]


_BYTE_MUTATIONS: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], bytearray], ...] = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _truncate,
    _delete,
    _duplicate,
    _swap,
    _splice,
    _insert_fragment,
    _blow_up_number,
    _long_varint,
)


def odd_value(rng: random.Random) -> Any:
    """A value of JSON that nobody expects."""
    return rng.choice(
        (
            None,
            True,
            rng.choice(EXTREMES) * rng.choice((1, -1)),
            rng.choice((0.5, -0.0, 1e308, 5e-324)),
            "",
            "x" * rng.choice((1, 300, 70_000)),
            rng.choice(
                ("../x", "/etc/passwd", "s3://other/x", "%2e%2e/x", "a\\..\\b", "a\0b", "\x1b[2J", "\u202e", "{}")
            ),
            [],
            {},
            [None] * 3,
            {"": {"": []}},
            nested(rng.choice((5, 60, 600, 3000))),
        )
    )


def nested(depth: int) -> str:
    """A mark that `json_text` writes as lists in lists: so deep that Python itself could not hold them."""
    return f"@nested:{depth}@"


def change_json(rng: random.Random, value: Any, times: int | None = None) -> Any:
    """A copy of the value in which a few parts are dropped, doubled, renamed, exchanged or something else."""
    found = copy.deepcopy(value)
    for _ in range(times or rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(found))
        if not places:
            return odd_value(rng)
        holder, key = rng.choice(places)
        if isinstance(holder, dict):
            _change_field(rng, holder, key, places)
        else:
            _change_item(rng, holder, key, places)
    return found


def _change_field(rng: random.Random, holder: dict[str, Any], key: str, places: Sequence[tuple[Any, Any]]) -> None:
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1:
            holder[rng.choice((key.upper(), key + "x", "", "\0", "metaData", "parts"))] = holder.pop(key)
        case 2:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other[place])
        case _:
            holder[key] = odd_value(rng)


def _change_item(rng: random.Random, holder: list[Any], key: int, places: Sequence[tuple[Any, Any]]) -> None:
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1:
            holder.insert(key, copy.deepcopy(holder[key]))
        case 2:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other[place])
        case 3:
            holder[key:] = [holder[key]] * rng.choice((2, 100))
        case _:
            holder[key] = odd_value(rng)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def json_text(value: Any) -> bytes:
    """The value as JSON; half a character stands as an escape."""
    return _NESTED.sub(lambda mark: b"[" * int(mark[1]) + b"]" * int(mark[1]), json.dumps(value).encode())


def change_words(rng: random.Random, text: str, words: Sequence[str]) -> str:
    """The text with words of a language put in, taken out, exchanged, repeated and nested."""
    parts = re.findall(r"\w+|\s+|.", text, re.DOTALL)
    for _ in range(rng.choice((1, 2, 3, 6))):
        place = rng.randrange(len(parts) + 1)
        match rng.randrange(7):
            case 0:
                parts[place : place + 1] = []
            case 1:
                parts[place:place] = [rng.choice(words)]
            case 2:
                parts[place : place + 1] = [rng.choice(words)]
            case 3:
                parts[place:place] = parts[max(0, place - 5) : place] * rng.choice((1, 2, 200))
            case 4:
                depth = rng.choice((1, 3, 60, 3000))
                opening, closing = rng.choice((("(", ")"), ("[", "]"), ("NOT ", ""), ("(NOT ", ")"), ('"', '"')))
                parts = [opening * depth, *parts, closing * rng.choice((depth, depth, depth - 1))]
            case 5:
                parts[place : place + 1] = [str(rng.choice(EXTREMES) * rng.choice((1, -1)))]
            case _:
                parts[place:place] = [rng.choice(_ODD_CHARACTERS)]
    return "".join(parts)[:200_000]


_ODD_CHARACTERS = (
    "\0",
    "\x1b",
    "\ud800",
    "\u202e",
    "\u00a0",
    "ß",
    "İ",
    "\U0010ffff",
    "é",
    "\ufeff",
    "'",
    '"',
    "`",
    "\\",
)
