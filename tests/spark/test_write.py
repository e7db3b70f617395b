"""Saves of DataFrames: what is there afterwards, and what is refused before a row is read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.spark_rows import numbers, orphans, save

import indextables as it

ROWS = "id", "cast(id % 3 as int) as Part", "concat('row number ', id) as Message"


@pytest.fixture
def url(tmp_path) -> str:
    return str(tmp_path / "table")


def rows(spark, start: int, end: int | None = None):
    return spark.range(start, end).selectExpr(*ROWS) if end is not None else spark.range(start).selectExpr(*ROWS)


def refusal(frame, url, mode: str = "append", **options: str) -> str:
    """What Spark says of a save that must fail, on one line."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as refused:
        save(frame, url, mode, **options)
    return " ".join(str(refused.value).split())


def test_a_save_creates_the_table_and_the_next_appends_to_it(spark, url) -> None:
    options = {"indexing__message": "text", "indexing__tokenizer__MESSAGE": "whitespace", "indexing__fastfields": "ID"}
    save(rows(spark, 10), url, partitionBy="part", **options)
    table = it.Table.open(url)
    assert (table.version, table.partition_columns, table.num_records) == (1, ("Part",), 10)
    expected = [pa.field("id", pa.int64()), pa.field("Part", pa.int32()), pa.field("Message", pa.string())]
    assert table.schema == pa.schema(expected), "what a DataFrame knows never to be null may be null in a table"
    properties = {key: value for key, value in table.metadata.configuration.items() if key.startswith("spark.")}
    assert properties == {
        "spark.indextables.indexing.typemap.Message": "text",
        "spark.indextables.indexing.tokenizer.Message": "whitespace",
        "spark.indextables.indexing.fastfields": "id",
    }
    save(rows(spark, 10, 15), url)
    assert table.refresh().version == 2
    assert numbers(url) == list(range(15))
    assert table.search("Message:12", columns=["id"])["id"].to_pylist() == [12]
    assert orphans(url) == set()


def test_columns_are_known_by_name_in_any_case_and_missing_ones_are_null(spark, url) -> None:
    save(rows(spark, 1), url, partitionBy="Part")
    save(spark.range(5, 7).selectExpr("'x' as MESSAGE", "cast(id as int) as ID"), url)
    found = it.Table.open(url).search(where="id >= 5")
    assert found.to_pylist() == [{"id": i, "Part": None, "Message": "x"} for i in (5, 6)]


def test_an_option_of_one_write_wins_over_the_property_of_the_table(spark, url) -> None:
    save(rows(spark, 1), url, indexing__message="text")
    save(rows(spark, 1, 2), url, indexing__message="string")
    mappings = it.Table.open(url).files()["doc_mapping_json"].to_pylist()
    assert ['"kind":"text"' in mapping for mapping in mappings] == [True, False]


def test_an_overwrite_takes_the_place_of_everything(spark, url) -> None:
    save(rows(spark, 10), url)
    save(rows(spark, 20, 25), url, "overwrite")
    assert numbers(url) == list(range(20, 25))
    assert numbers(url, version=1) == list(range(10))
    save(rows(spark, 30, 31), url, "overwrite", ifVersion="2")
    said = refusal(rows(spark, 40, 41), url, "overwrite", ifVersion="2")
    assert "the table is at version 3, not at version 2 as requested" in said
    assert numbers(url) == [30]
    assert orphans(url) == set()


def test_an_overwrite_creates_a_table_too(spark, url) -> None:
    save(rows(spark, 3), url, "overwrite")
    assert numbers(url) == [0, 1, 2]
    assert "there is no table" in refusal(rows(spark, 3), url + "2", "overwrite", ifVersion="0")


def test_partitions_are_replaced_by_a_predicate(spark, url) -> None:
    save(rows(spark, 9), url, partitionBy="Part")
    save(rows(spark, 90, 120).where("Part = 1"), url, "overwrite", replaceWhere="part = 1")
    expected = [i for i in range(9) if i % 3 != 1] + [i for i in range(90, 120) if i % 3 == 1]
    assert numbers(url) == expected
    info = it.TransactionLog(url).read_version(2)[0]
    assert info.parameters == {"mode": "Overwrite", "predicate": "part = 1"}
    assert "`part = 1` is not true of it" in refusal(rows(spark, 9), url, "overwrite", replaceWhere="part = 1")
    assert "`id` is not a partition column" in refusal(rows(spark, 9), url, "overwrite", replaceWhere="id = 1")
    assert numbers(url) == expected
    assert orphans(url) == set()


def test_partitions_that_rows_come_of_are_replaced(spark, url) -> None:
    save(rows(spark, 9), url, partitionBy="Part")
    new = rows(spark, 90, 120).where("Part <> 1")
    save(new, url, "overwrite", partitionOverwriteMode="dynamic")
    expected = [1, 4, 7] + [i for i in range(90, 120) if i % 3 != 1]
    assert numbers(url) == expected
    assert it.TransactionLog(url).read_version(2)[0].parameters == {
        "mode": "Overwrite",
        "partitionOverwriteMode": "dynamic",
    }
    save(new.where("id < 0"), url, "overwrite", partitionOverwriteMode="DYNAMIC")
    assert it.Table.open(url).version == 2, "no rows change nothing"
    assert numbers(url) == expected


def test_without_partition_columns_a_dynamic_overwrite_is_a_whole_one(spark, url) -> None:
    save(rows(spark, 9), url)
    save(rows(spark, 20, 22), url, "overwrite", partitionOverwriteMode="dynamic")
    assert numbers(url) == [20, 21]


def test_no_rows_make_a_table(spark, url) -> None:
    save(rows(spark, 0), url, partitionBy="Part")
    table = it.Table.open(url)
    assert (table.num_records, table.partition_columns, table.schema.names) == (0, ("Part",), ["id", "Part", "Message"])
    save(rows(spark, 3).where("id > 5"), url)
    save(spark.createDataFrame([], rows(spark, 1).schema), url)
    save(rows(spark, 3), url)
    assert numbers(url) == [0, 1, 2]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["'x' as id"], "cannot write the column `id` because it is `string`, and the table's is `int64`"),
        (["id", "1 as other"], "cannot write the column `other` because the table has no such column"),
        (["id", "1.5D as part"], "cannot write the column `Part` because it is `double`, and the table's is `int32`"),
        (["id", "id as ID"], "cannot use the columns `id` and `ID` together in the schema: names ignore case"),
        (["id", "array(id) as message"], "cannot write the column `Message` because it is `list<element: int64>`"),
        (["Part"], "cannot write the column `id` because it is missing, and the table allows no null there"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_row_is_read(spark, url, columns, said) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("Part", pa.int32()), ("Message", pa.string())])
    it.Table.create(url, schema)
    unread = spark.range(3).selectExpr("if(id >= 0, raise_error('read'), id) as gone", "id", "1 as Part")
    message = refusal(unread.selectExpr(*columns), url)
    assert said in message
    assert it.Table.open(url).version == 0


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("interval 1 day", "interval day"),
        ("interval 1 month", "interval month"),
        ("parse_json('1')", "variant"),
        ("array(interval 1 day)", "interval day"),
        ("map('k', named_struct('v', parse_json('1')))", "variant"),
        ("'x' collate UNICODE_CI", "UNICODE_CI"),
        ("TIME'12:00:00'", "time(6)"),
    ],
)
def test_a_type_that_no_table_can_hold_is_refused(spark, url, column, kind) -> None:
    message = refusal(spark.range(1).selectExpr("id", f"{column} as odd"), url)
    assert "cannot write the column `odd` because a table cannot hold" in message, message[-500:]
    assert kind in message
    assert orphans(url) == set()


def test_a_user_defined_type_is_refused(spark, url) -> None:
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame([(1, Vectors.dense([1.0]))], ["id", "odd"])
    assert "cannot write the column `odd` because a table cannot hold its type `vector`" in refusal(frame, url)


def test_a_null_where_the_table_allows_none_ends_the_job(spark, url) -> None:
    it.Table.create(url, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    save(spark.range(3).selectExpr("nullif(id, -1) as id"), url)
    said = refusal(spark.range(0, 3, 1, 1).selectExpr("nullif(id, 1) as id"), url)
    assert "the column `id` because it holds a null, and the table allows no null there" in said
    assert numbers(url) == [0, 1, 2]
    assert orphans(url) == set()


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("append", {"replaceWhere": "Part = 1"}, "cannot append with the option `replaceWhere`"),
        ("append", {"ifVersion": "0"}, "cannot append with the option `ifVersion`"),
        (
            "overwrite",
            {"replaceWhere": "Part = 1", "partitionOverwriteMode": "dynamic"},
            "cannot overwrite with `replaceWhere` and with `partitionOverwriteMode` `dynamic` at once",
        ),
        ("append", {"search": "x"}, "cannot write with the option `search` because it is an option of reading"),
        ("append", {"versionAsOf": "0"}, "cannot write with the option `versionAsOf`"),
        ("append", {"partitionBy": "id"}, "partitioned by (id) because the table is partitioned by (Part)"),
        ("append", {"indexing__nothing": "text"}, "the schema has no column `nothing`"),
        ("append", {"indexing__part": "text"}, "cannot index column `Part` as `text` because its type is `int32`"),
        ("append", {"partitionBuy": "Part"}, "did you mean `partitionBy`?"),
    ],
)
def test_options_that_cannot_be_are_refused(spark, url, mode, options, said) -> None:
    save(rows(spark, 3), url, partitionBy="Part")
    assert said in refusal(rows(spark, 3), url, mode, **options)
    assert it.Table.open(url).version == 1
    save(rows(spark, 3, 4), url, partitionBy="PART")
    assert numbers(url) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partitionBy": "nothing"}, "cannot partition by `nothing` because the schema has no such column"),
        ({"partitionBy": "id,part,message"}, "cannot partition by every column"),
        ({"indexing__nothing": "text"}, "the schema has no column `nothing`"),
    ],
)
def test_a_table_that_cannot_be_is_not_created(spark, url, options, said) -> None:
    assert said in refusal(rows(spark, 3), url, **options)
    assert orphans(url) == set()
    with pytest.raises(it.errors.TableNotFoundError):
        it.Table.open(url)


def test_splits_have_the_target_size_and_partitions_do_not_shatter(spark, url, tmp_path) -> None:
    place = tmp_path / "local"
    place.mkdir()
    frame = spark.range(0, 40_000, 1, 1).selectExpr("id", "cast(id % 20 as int) as Part", "uuid() as Message")
    options = {"indexWriter__tempDirectoryPath": str(place)}
    save(frame, url, partitionBy="Part", **options)
    table = it.Table.open(url)
    assert table.num_files == 20, "one split for each partition of the one task"
    assert numbers(url) == list(range(40_000))
    assert list(place.iterdir()) == []
    save(frame, url, "overwrite", write__targetSplitSize="200K", **options)
    assert table.refresh().num_files == 20
    save(frame.selectExpr("id", "1 as Part", "Message"), url, "overwrite", write__targetSplitSize="200K", **options)
    assert table.refresh().num_files == 4, "a split for each batch that Spark sends"
    assert numbers(url) == list(range(40_000))


def test_a_due_checkpoint_is_there_when_the_save_returns(spark, url) -> None:
    save(rows(spark, 1), url)
    for _ in range(2):
        save(rows(spark, 1), url, checkpoint__interval="3")
    assert it.TransactionLog(url).last_checkpoint().version == 3


def test_the_address_may_be_a_url(spark, url) -> None:
    save(rows(spark, 3), f"file://{url}")
    assert numbers(url) == [0, 1, 2]
