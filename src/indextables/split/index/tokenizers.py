"""Names of tokenizers and their meaning. Pure.

`default` makes lower-case words, `whitespace` splits at white space and keeps case, `raw` keeps the text as one term,
`en_stem` and similar names reduce words to their stems, and `ngram` or `ngram(2,4)` makes all substrings of that many
characters, in lower case.
"""

from __future__ import annotations

import re

STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
_SIMPLE = frozenset({"default", "raw", "whitespace"})
_NGRAM = re.compile(r"ngram(?:\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\))?")
_DEFAULT_GRAMS = (2, 3)


def is_tokenizer(name: str) -> bool:
    """Return whether there is a tokenizer of this name."""
    return name in _SIMPLE or stemmed_language(name) is not None or gram_lengths(name) is not None


def stemmed_language(name: str) -> str | None:
    """Return the language of a stemmer such as `en_stem`, or None."""
    return STEMMERS.get(name.removesuffix("_stem")) if name.endswith("_stem") else None


def gram_lengths(name: str) -> tuple[int, int] | None:
    """Return the least and greatest length of an `ngram` tokenizer's pieces, or None."""
    match = _NGRAM.fullmatch(name)
    if match is None:
        return None
    low, high = (int(part) for part in match.groups()) if match.group(1) else _DEFAULT_GRAMS
    return (low, high) if 1 <= low <= high else None


def known_tokenizers() -> str:
    """Return all names, for messages."""
    stems = ", ".join(f"`{code}_stem`" for code in STEMMERS)
    return f"`default`, `raw`, `whitespace`, `ngram`, `ngram(2,4)`, {stems}"
