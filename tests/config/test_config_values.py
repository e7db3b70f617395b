"""Every kind of value: what it takes, what it refuses, and that its text can be read again."""

from __future__ import annotations

import datetime
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.config.setting import Setting
from indextables.config.values import (
    BadValueError,
    Bool,
    Choice,
    Duration,
    Float,
    Int,
    Kind,
    Maybe,
    Names,
    Size,
    Text,
)
from indextables.errors import ConfigError

K, M, G, T = 1 << 10, 1 << 20, 1 << 30, 1 << 40


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Bool(), "true", True),
        (Bool(), " TRUE ", True),
        (Bool(), "Yes", True),
        (Bool(), "1", True),
        (Bool(), 1, True),
        (Bool(), True, True),
        (Bool(), "False", False),
        (Bool(), "no", False),
        (Bool(), "0", False),
        (Bool(), 0, False),
        (Bool(), False, False),
        (Int(), "-3", -3),
        (Int(), " 12 ", 12),
        (Int(), "12\x1f", 12),
        (Int(1, 22), 22, 22),
        (Int(1, 22), "1", 1),
        (Float(0, 1), "0.10", 0.1),
        (Float(0, 1), 1, 1.0),
        (Float(), "-2.5e3\x1f", -2500.0),
        (Size(), "100M", 100 * M),
        (Size(), "1G", G),
        (Size(), "5GB", 5 * G),
        (Size(), "1GiB", G),
        (Size(), "1gib", G),
        (Size(), "2 TB", 2 * T),
        (Size(), "3k", 3 * K),
        (Size(), "134217728", 128 * M),
        (Size(), "17b", 17),
        (Size(), 4096, 4096),
        (Size(), "1.5G", 3 * G // 2),
        (Size(), "0", 0),
        (Duration("hours"), "30d", 720),
        (Duration("hours"), "7 days", 168),
        (Duration("hours"), "168 hours", 168),
        (Duration("hours"), "168", 168),
        (Duration("hours"), 168, 168),
        (Duration("hours"), "1 Week", 168),
        (Duration("hours"), "120m", 2),
        (Duration("hours"), datetime.timedelta(days=2), 48),
        (Duration("ms"), "2h", 7_200_000),
        (Duration("ms"), "500ms", 500),
        (Duration("ms"), "500", 500),
        (Duration("seconds"), "5 minutes", 300),
        (Duration("seconds"), "3000ms", 3),
        (Choice(("avro", "json")), " AVRO ", "avro"),
        (Names(), "a, B ,a", ("a", "B")),
        (Names(), "", ()),
        (Names(), ["a,b", "c"], ("a,b", "c")),
        (Text(), "  x y ", "x y"),
        (Text(), PurePosixPath("/tmp/x"), "/tmp/x"),
        (Maybe(Int(1), "auto"), "Auto", None),
        (Maybe(Int(1), "auto"), "7", 7),
    ],
)
def test_a_good_value_is_read(kind: Kind[object], raw: object, value: object):
    read = kind.read(raw)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        *((Bool(), raw) for raw in ("", "on", "tru", 2, 1.0, None)),
        *((Int(), raw) for raw in ("", "abc", "1.0", 1.0, True, "1_000", "0x10", "٣", "9" * 5000, None)),
        *((Int(1, 22), raw) for raw in (0, 23, "0", "23")),
        *(
            (Float(0, 1), raw)
            for raw in ("nan", "inf", float("nan"), float("inf"), "1.01", -0.1, True, "10%", "", ".", "9" * 300 + "e99")
        ),
        *(
            (Size(), raw)
            for raw in ("", "G", "-1", "1X", "1 G B", "8388608T", 1 << 63, "1.5", "5iB", "1.5B", 1.5, True, "1e3")
        ),
        *((Size(M), raw) for raw in ("1023K", M - 1, "0")),
        *((Size(high=M), raw) for raw in ("1025K", M + 1)),
        *((Duration("hours"), raw) for raw in ("90m", "1.5h", "-1", -1, "1 fortnight", "", "h", 1.0, True)),
        (Duration("hours"), datetime.timedelta(minutes=61)),
        (Duration("hours"), datetime.timedelta(hours=-1)),
        (Duration("seconds"), "1500ms"),
        (Duration("seconds", 1), "0"),
        *((Choice(("avro", "json")), raw) for raw in ("", "xml", 1, None)),
        *((Names(), raw) for raw in ("a,,b", "a,", ["a", ""], ["a", 1], 7)),
        *((Text(), raw) for raw in ("", "  ", 7, b"x", None)),
        *((Maybe(Int(1), "auto"), raw) for raw in ("none", 0)),
    ],
)
def test_a_bad_value_is_refused_without_showing_it(kind: Kind[object], raw: object):
    with pytest.raises(BadValueError) as caught:
        kind.read(raw)
    assert str(caught.value) == ""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Int(1), "a whole number of at least 1"),
        (Int(1, 22), "a whole number from 1 to 22"),
        (Int(high=5), "a whole number of at most 5"),
        (Int(), "a whole number"),
        (Float(0, 1), "a number from 0 to 1"),
        (Size(15 * M), "a size of at least 15M, in bytes or such as `100M` or `1G`"),
        (Duration("hours", 1), "a duration of at least 1, in whole hours or such as `12h` or `7 days`"),
        (Choice(("avro", "json")), "one of `avro`, `json`"),
        (Maybe(Int(1), "auto"), "a whole number of at least 1, or `auto`"),
    ],
)
def test_what_is_expected_reads_well(kind: Kind[object], expected: str):
    assert kind.expected == expected


def test_an_error_names_key_value_and_what_is_expected():
    setting = Setting("checkpoint.interval", Int(1), 10, "")
    with pytest.raises(ConfigError) as caught:
        setting.parse("abc")
    assert caught.value.message == "cannot use `abc` for `checkpoint.interval`: expected a whole number of at least 1"


def test_an_error_shortens_long_values_and_escapes_unprintable_ones():
    setting = Setting("k", Int(), 0, "")
    with pytest.raises(ConfigError) as caught:
        setting.parse("x" * 10_000)
    assert len(caught.value.message) < 200
    with pytest.raises(ConfigError) as caught:
        setting.parse("a\nb\x1b[31m")
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("raw", ["hunter2", 12345678, ["hunter2"], b"hunter2"])
def test_an_error_about_a_secret_does_not_show_it(raw: object):
    setting = Setting("aws.secretKey", Choice(("x",)), "x", "", secret=True)
    with pytest.raises(ConfigError) as caught:
        setting.parse(raw)
    assert "hunter2" not in str(caught.value)
    assert "12345678" not in str(caught.value)
    assert "`aws.secretKey`" in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.integers(0, 1 << 62))
def test_a_size_survives_its_text(number: int):
    assert Size().read(Size().show(number)) == number
    assert Size().read(str(number)) == number


@given(
    st.integers(0, 1 << 22), st.sampled_from(["", "K", "M", "G", "T"]), st.sampled_from(["", "B", "iB"]), st.booleans()
)
def test_units_of_size_are_powers_of_1024(number: int, letter: str, tail: str, lower: bool):
    text = f"{number}{letter}{tail if letter else tail.removeprefix('i')}"
    expected = number * 1024 ** ["", "K", "M", "G", "T"].index(letter)
    assert Size().read(text.lower() if lower else text) == expected


@given(
    st.integers(0, 1 << 22),
    st.sampled_from(["ms", "s", "m", "h", "d", "w"]),
    st.sampled_from(["ms", "seconds", "hours"]),
)
def test_a_duration_is_exact_or_refused(number: int, unit: str, own_unit):
    factors = {"ms": 1, "s": 1000, "seconds": 1000, "m": 60_000, "h": 3_600_000, "hours": 3_600_000}
    factors |= {"d": 86_400_000, "w": 604_800_000}
    milliseconds = number * factors[unit]
    kind = Duration(own_unit)
    if milliseconds % factors[own_unit]:
        with pytest.raises(BadValueError):
            kind.read(f"{number}{unit}")
    else:
        assert kind.read(f"{number} {unit.upper()}") == milliseconds // factors[own_unit]


@given(
    st.lists(st.text(st.characters(exclude_characters=",", exclude_categories=["Zs", "Cc", "Zl", "Zp"]), min_size=1))
)
def test_names_survive_their_text(names: list[str]):
    kind = Names()
    value = kind.read(names)
    assert kind.read(kind.show(value)) == value == tuple(dict.fromkeys(names))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_survives_its_text(number: float):
    assert Float().read(repr(number)) == number
    assert Float().read(number) == number


@pytest.mark.parametrize("kind", [Bool(), Int(), Float(), Size(), Duration("ms")])
@pytest.mark.parametrize("raw", [10**5000, -(10**5000), "9" * 5000], ids=["large", "negative", "text"])
def test_enormous_numbers_are_refused_like_others(kind: Kind[object], raw: object):
    with pytest.raises(ConfigError) as caught:
        Setting("k", kind, None, "").parse(raw)
    assert len(caught.value.message) < 250


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary(), st.lists(st.text())))
def test_whatever_is_given_is_read_or_refused(raw: object):
    for kind in (
        Bool(),
        Int(0, 9),
        Float(0, 1),
        Size(1),
        Duration("ms"),
        Choice(("a",)),
        Names(),
        Maybe(Text(), "auto"),
    ):
        try:
            value = kind.read(raw)
        except BadValueError:
            continue
        if not isinstance(raw, list):
            assert kind.read(kind.show(value)) == value
