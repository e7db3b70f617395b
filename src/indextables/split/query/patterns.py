"""Regular expressions over whole words of an index, in Tantivy's syntax.

`.` is any character.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indextables.split.query.tree import ANY, Piece

EVERYTHING = "(?s:.*)"

_SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~/ ")
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
# Tantivy refuses an expression of more than 1,000 states, and one character of a bound costs up to 30 of them.
_CHARACTERS = 8


def escape(text: str) -> str:
    """Return an expression that matches exactly this text."""
    return "".join(_escape(ord(character)) for character in text)


def _escape(code: int) -> str:
    character = chr(code)
    if character in _SPECIAL or not character.isprintable():
        return f"\\x{{{code:x}}}"
    return character


def wildcard(pieces: Sequence[Piece]) -> str:
    """Return an expression for text with wildcards."""
    return "".join(
        escape(piece) if isinstance(piece, str) else EVERYTHING if piece is ANY else "(?s:.)" for piece in pieces
    )


def between(low: str | None, high: str | None, *, includes_low: bool, includes_high: bool) -> list[str]:
    """Return expressions that together match the texts between two bounds.

    Texts are in the order of code points.
    """
    if low is None or high is None:
        above = [] if low is None else list(_at_least("", low, inclusive=includes_low))
        return above if high is None else list(_at_most("", high, inclusive=includes_high))
    if low >= high:
        return [escape(low)] if low == high and includes_low and includes_high else []
    shared = next((place for place in range(len(low)) if low[place] != high[place]), len(low))
    prefix, low_rest, high_rest = high[:shared], low[shared:], high[shared:]
    if not low_rest:
        found = [escape(prefix)] if includes_low else []
        return [*found, *_at_most(prefix, high_rest, inclusive=includes_high, includes_prefix=False)]
    first, last = _next(ord(low_rest[0]), 1), _next(ord(high_rest[0]), -1)
    middle = [f"{escape(prefix)}[{_hex(first)}-{_hex(last)}]{EVERYTHING}"] if first <= last else []
    return [
        *_at_least(prefix + low_rest[0], low_rest[1:], inclusive=includes_low),
        *middle,
        *_at_most(prefix + high_rest[0], high_rest[1:], inclusive=includes_high),
    ]


def _at_least(prefix: str, bound: str, *, inclusive: bool) -> Iterator[str]:
    """Yield expressions for `prefix` followed by a text from `bound` on."""
    yield escape(prefix + bound) + ("" if inclusive else "(?s:.)") + EVERYTHING
    yield from _differing(prefix, bound, above=True)


def _at_most(prefix: str, bound: str, *, inclusive: bool, includes_prefix: bool = True) -> Iterator[str]:
    """Yield expressions for `prefix` followed by a text up to `bound`.

    The prefixes of a text sort before it.
    """
    yield from _differing(prefix, bound, above=False)
    ends = range(0 if includes_prefix else 1, len(bound) + inclusive)
    for start in range(0, len(ends), _CHARACTERS):
        few = ends[start : start + _CHARACTERS]
        choices = "|".join(escape(bound[few[0] : end]) for end in few)
        yield f"{escape(prefix + bound[: few[0]])}(?:{choices})"


def _differing(prefix: str, bound: str, *, above: bool) -> Iterator[str]:
    """Yield expressions for texts that leave `bound` at one of its characters.

    Each text is `prefix`, a beginning of `bound`, and then a greater, or lesser, character.
    """
    for start in range(0, len(bound), _CHARACTERS):
        choices = []
        for place in range(start, min(start + _CHARACTERS, len(bound))):
            code = ord(bound[place])
            first, last = (_next(code, 1), _LAST) if above else (0, _next(code, -1))
            if first <= last:
                choices.append(f"{escape(bound[start:place])}[{_hex(first)}-{_hex(last)}]{EVERYTHING}")
        if choices:
            yield f"{escape(prefix + bound[:start])}(?:{'|'.join(choices)})"


def _next(code: int, step: int) -> int:
    code += step
    if code in _SURROGATES:
        return _SURROGATES.stop if step > 0 else _SURROGATES.start - 1
    return code


def _hex(code: int) -> str:
    return f"\\x{{{code:x}}}"
