"""Which value is in force, what is refused, and that secrets stay secret."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.config import Config, Setting, settings, store_settings
from indextables.config.resolve import PREFIX
from indextables.errors import ConfigError

INTERVAL = settings.CHECKPOINT_INTERVAL
SECRET = "hunter2hunter2"


def test_without_layers_everything_has_its_default():
    config = Config.resolve()
    assert all(config[setting] == setting.default for setting in settings.ALL)
    assert not any(config.is_set(setting) for setting in settings.ALL)
    assert config.family(settings.INDEXING_TYPEMAP) == {}
    assert repr(config) == "Config()"


def test_the_layers_win_in_their_order():
    layers = {
        "clause": {"checkpoint.interval": "1"},
        "options": {"checkpoint.interval": "2"},
        "session": {PREFIX + "checkpoint.interval": "3"},
        "properties": {"checkpoint.interval": "4"},
    }
    seen = []
    for name in list(layers):
        config = Config.resolve(**layers)
        seen.append((config[INTERVAL], config.source(INTERVAL)))
        del layers[name]
    assert seen == [(1, "clause"), (2, "option"), (3, "session"), (4, "table property")]
    assert Config.resolve().source(INTERVAL) == "default"


def test_a_value_equal_to_the_default_counts_as_set():
    assert Config.resolve(options={"checkpoint.interval": "10"}).is_set(INTERVAL)
    assert Config.resolve(options={"purge.parallelism": "auto"}).is_set(settings.PURGE_PARALLELISM)


def test_the_word_for_no_value_wins_over_a_lower_layer():
    config = Config.resolve(options={"purge.parallelism": "auto"}, properties={"purge.parallelism": "3"})
    assert config[settings.PURGE_PARALLELISM] is None


def test_none_is_no_entry():
    config = Config.resolve(options={"checkpoint.interval": None}, properties={"checkpoint.interval": 7})
    assert config[INTERVAL] == 7
    assert not Config.resolve(options={"checkpoint.interval": None}).is_set(INTERVAL)
    with pytest.raises(ConfigError):
        Config.resolve(options={"checkpoint.intervall": None})


def test_the_prefix_is_optional_but_in_the_session():
    for layer in ("clause", "options", "properties"):
        assert Config.resolve(**{layer: {"Spark.IndexTables.Checkpoint.Interval": "5"}})[INTERVAL] == 5
        assert Config.resolve(**{layer: {"checkpoint.interval": "5"}})[INTERVAL] == 5
    assert Config.resolve(session={"SPARK.indextables.checkpoint.INTERVAL": "5"})[INTERVAL] == 5
    assert Config.resolve(session={"checkpoint.interval": "5"})[INTERVAL] == 10


@pytest.mark.parametrize("layer", ["clause", "options"])
def test_an_unknown_key_is_refused_with_the_nearest(layer: str):
    with pytest.raises(ConfigError) as caught:
        Config.resolve(**{layer: {"spark.indextables.checkpoint.intervall": SECRET}})
    assert "`spark.indextables.checkpoint.intervall`" in caught.value.message
    assert layer.removesuffix("s") in caught.value.message
    assert caught.value.hint == "did you mean `checkpoint.interval`?"
    assert SECRET not in str(caught.value)


def test_an_unknown_key_without_a_near_one_leads_to_the_list():
    with pytest.raises(ConfigError, match=r"docs/configuration\.md"):
        Config.resolve(options={"zzz": 1})


def test_an_unknown_key_of_the_session_is_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, logger="indextables.config.resolve"):
        Config.resolve(session={"spark.indextables.aws.secretKeyy": SECRET, "spark.sql.shuffle.partitions": "x"})
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "`spark.indextables.aws.secretKeyy`" in record.getMessage()
    assert "`aws.secretKey`" in record.getMessage()
    assert SECRET not in record.getMessage()


def test_an_unknown_property_is_ignored(caplog: pytest.LogCaptureFixture):
    config = Config.resolve(properties={"docMappingSchema.abc": "{}", "spark.indextables.nope": "1", "owner": "me"})
    assert config == Config.resolve()
    assert not caplog.records


@pytest.mark.parametrize(
    ("layer", "name"),
    [("clause", "clause"), ("options", "option"), ("session", "session"), ("properties", "table property")],
)
def test_a_bad_value_is_refused_and_the_layer_named(layer: str, name: str):
    with pytest.raises(ConfigError) as caught:
        Config.resolve(**{layer: {"spark.indextables.Checkpoint.interval": "0"}})
    assert caught.value.message == (
        f"cannot use `0` for `checkpoint.interval` ({name} `spark.indextables.Checkpoint.interval`): "
        "expected a whole number of at least 1"
    )


def test_a_bad_value_of_a_family_is_refused():
    with pytest.raises(ConfigError, match=r"`a,b` for `indexing\.typemap\.fastfield` \(option `indexing\.fastfield`\)"):
        Config.resolve(options={"indexing.fastfield": "a,b"})


def test_a_key_that_is_no_text_is_refused():
    with pytest.raises(ConfigError, match="expected text"):
        Config.resolve(options={7: "x"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "entries",
    [
        {"checkpoint.interval": "5", "CHECKPOINT.interval": "6"},
        {"checkpoint.interval": "5", "spark.indextables.checkpoint.interval": "6"},
        {"aws.secretKey": SECRET, "aws_secret_access_key": SECRET + "x"},
        {"indexing.typemap.title": "text", "indexing.title": "string"},
    ],
)
def test_two_spellings_that_differ_are_refused(entries: dict[str, str]):
    with pytest.raises(ConfigError) as caught:
        Config.resolve(options=entries)
    assert all(f"`{name}`" in caught.value.message for name in entries)
    assert SECRET not in str(caught.value)


def test_two_spellings_that_agree_are_fine():
    config = Config.resolve(options={"checkpoint.maxFileSize": "128M", "CHECKPOINT.MAXFILESIZE": 134217728})
    assert config[settings.CHECKPOINT_MAX_FILE_SIZE] == 128 << 20


def test_families_merge_field_by_field():
    config = Config.resolve(
        options={"indexing.Title": "text", "indexing.typemap.a.b": "json"},
        session={PREFIX + "indexing.typemap.Title": "json"},
        properties={"indexing.typemap.title": "string", "indexing.tokenizer.Title": "en_stem"},
    )
    assert config.family(settings.INDEXING_TYPEMAP) == {"Title": "text", "a.b": "json", "title": "string"}
    assert config.family(settings.INDEXING_TOKENIZER) == {"Title": "en_stem"}


def test_other_properties_leave_the_other_layers():
    config = Config.resolve(options={"checkpoint.interval": 5}, properties={"state.format": "json"})
    other = config.with_properties({"state.compressionLevel": "9", "checkpoint.interval": "7"})
    assert other[INTERVAL] == 5
    assert other[settings.STATE_COMPRESSION_LEVEL] == 9
    assert not other.is_set(settings.STATE_FORMAT)
    assert config[settings.STATE_FORMAT] == "json"


@pytest.mark.parametrize("setting", [setting for setting in settings.ALL if setting.host_only], ids=lambda s: s.key)
def test_a_table_decides_nothing_about_storage(setting):
    raw = good_text(setting)
    for name in (setting.key, *setting.aliases):
        config = Config.resolve(properties={name: raw})
        assert not config.is_set(setting)
        assert config[setting] == setting.default
        assert Config.resolve(options={name: raw}).is_set(setting)


def _config_with_all_secrets() -> Config:
    return Config.resolve(options={setting.key: SECRET for setting in settings.ALL if setting.secret})


def test_no_description_shows_a_secret():
    config = _config_with_all_secrets()
    assert config[store_settings.AWS_SECRET_KEY] == SECRET
    for text in (repr(config), str(config), f"{config}", repr(list(config.items())), repr(vars(config)["_layers"])):
        assert SECRET not in text
    assert "aws.secretKey=<redacted> (option)" in repr(config)
    described = dict(config.items())
    assert described["aws.secretKey"] == "<redacted>"
    assert described["checkpoint.interval"] == 10
    assert dict(Config.resolve().items())["aws.secretKey"] is None


def test_items_name_every_setting_and_every_field():
    config = Config.resolve(options={"indexing.title": "text", "checkpoint.interval": 3})
    described = dict(config.items())
    assert described.keys() == {setting.key for setting in settings.ALL} | {"indexing.typemap.title"}
    assert described["indexing.typemap.title"] == "text"
    assert described["checkpoint.interval"] == 3


def test_a_config_is_an_immutable_value():
    config = _config_with_all_secrets()
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config
    assert hash(copy) == hash(config)
    assert copy[store_settings.AWS_SECRET_KEY] == SECRET
    assert copy.with_properties({"state.format": "json"}) != config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.anything = 1  # type: ignore[attr-defined]


def test_later_changes_of_the_mappings_do_not_matter():
    options: dict[str, object] = {"checkpoint.interval": 5}
    config = Config.resolve(options=options)
    options["checkpoint.interval"] = 6
    config.family(settings.INDEXING_TYPEMAP)["x"] = "text"
    assert config[INTERVAL] == 5
    assert config.family(settings.INDEXING_TYPEMAP) == {}


SOME = {
    "checkpoint.interval": st.integers(1, 50).map(str),
    "checkpoint.enabled": st.sampled_from(["true", "no", "1"]),
    "state.format": st.sampled_from(["avro", "JSON"]),
    "purge.defaultRetentionHours": st.sampled_from(["7 days", "24", "48h"]),
    "merge.targetSize": st.sampled_from(["1G", "100M"]),
    "aws.region": st.sampled_from(["eu-west-1", "us-east-1"]),
}
layer_of_some = st.fixed_dictionaries({}, optional=SOME)


@given(layer_of_some, layer_of_some, layer_of_some, layer_of_some)
def test_precedence_agrees_with_a_plain_model(clause, options, session, properties):
    config = Config.resolve(
        clause=clause,
        options=options,
        session={PREFIX + key: value for key, value in session.items()},
        properties=properties,
    )
    for setting in settings.ALL:
        layers = [clause, options, session] + ([] if setting.host_only else [properties])
        given_values = [layer[setting.key] for layer in layers if setting.key in layer]
        assert config.is_set(setting) == bool(given_values)
        assert config[setting] == (setting.parse(given_values[0]) if given_values else setting.default)


def good_text(setting: Setting[object]) -> str:
    """Some text that is a value of a setting."""
    if setting.default is not None:
        return setting.kind.show(setting.default)
    for text in ("x", "3", "true", "aes256"):
        with contextlib.suppress(ConfigError):
            setting.parse(text)
            return text
    raise AssertionError(setting.key)


@given(st.sampled_from(settings.ALL), st.data())
def test_case_prefix_and_alias_make_no_difference(setting, data: st.DataObject):
    name = data.draw(st.sampled_from([setting.key, *setting.aliases]))
    upper = data.draw(st.lists(st.booleans(), min_size=len(PREFIX + name), max_size=len(PREFIX + name)))
    full = "".join(char.upper() if up else char for char, up in zip(PREFIX + name, upper, strict=True))
    spelling = data.draw(st.sampled_from([full, full[len(PREFIX) :]]))
    raw = good_text(setting)
    config = Config.resolve(options={spelling: raw})
    assert config.is_set(setting)
    assert config[setting] == setting.parse(raw)
    assert config == Config.resolve(options={setting.key: raw})
