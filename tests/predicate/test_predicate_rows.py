"""Filtering rows by a bound predicate is what plain Python says it should be, whatever the rows and the predicate."""

from __future__ import annotations

import pickle
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from pyarrow import acero
from tests.predicate.predicate_oracle import (
    POOLS,
    SCHEMA,
    evaluate,
    predicates,
    random_predicate,
    random_row,
    rows,
    to_sql,
)

from indextables.predicate import And, Comparison, Not, bind, columns, parse_predicate, split_conjuncts, to_arrow


def kept(table: pa.Table, predicate) -> list[int]:
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    expression = to_arrow(bind(predicate, table.schema))
    # Projected rather than filtered, since not every type of column can be filtered by Arrow.
    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(numbered)),
        acero.Declaration("project", acero.ProjectNodeOptions([pc.field("row"), expression], ["row", "kept"])),
    ]
    found = acero.Declaration.from_sequence(plan).to_table()
    return sorted(row["row"] for row in found.to_pylist() if row["kept"])


@settings(max_examples=200)
@given(rows(), predicates())
def test_rows_are_kept_where_the_predicate_is_true(made, predicate):
    table = pa.Table.from_pylist(made, SCHEMA)
    expected = [i for i, row in enumerate(made) if evaluate(predicate, row) is True]
    assert kept(table, predicate) == expected


@pytest.mark.parametrize("name", POOLS)
def test_every_value_is_kept_where_the_predicate_is_true(name):
    rng = Random(name)
    made = [random_row(rng, (name,)) for _ in range(100)]
    table = pa.Table.from_pylist(made, pa.schema([SCHEMA.field(name)]))
    for _ in range(150):
        predicate = random_predicate(rng, (name,))
        assert kept(table, predicate) == [i for i, row in enumerate(made) if evaluate(predicate, row)], predicate


@settings(max_examples=200)
@given(rows(), predicates())
def test_text_means_what_the_values_mean(made, predicate):
    parsed = parse_predicate(to_sql(predicate))
    assert [evaluate(parsed, row) for row in made] == [evaluate(predicate, row) for row in made]
    assert columns(parsed) == columns(predicate)


@settings(max_examples=100)
@given(predicates())
def test_predicates_and_bound_predicates_are_picklable(predicate):
    assert to_sql(pickle.loads(pickle.dumps(predicate))) == to_sql(predicate)
    bound = bind(predicate, SCHEMA)
    assert repr(pickle.loads(pickle.dumps(bound))) == repr(bound)


def test_conjuncts_are_all_that_must_hold():
    parsed = parse_predicate("a = 1 and (b = 2 and not (c = 3 and d = 4))")
    first, second, third = split_conjuncts(parsed)
    assert isinstance(first, Comparison)
    assert isinstance(second, Comparison)
    assert isinstance(third, Not)
    assert isinstance(third.term, And)


def test_a_field_of_a_struct_is_filtered():
    table = pa.table({"a": [{"b": 1}, {"b": 2}, None], "c.d": [1, 2, 3]})
    assert table.filter(to_arrow(bind(parse_predicate("A.B >= 2"), table.schema))).num_rows == 1
    assert table.filter(to_arrow(bind(parse_predicate("a.b is null"), table.schema))).num_rows == 1
    assert table.filter(to_arrow(bind(parse_predicate("c.d = 3 or `c.d` = 1"), table.schema))).num_rows == 2


def test_every_variant_of_text_is_filtered():
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        table = pa.table({"s": pa.array(["a", "b", None]).cast(kind)})
        for text, count in (("s = 'a'", 1), ("s in ('a','b')", 2), ("s like 'a%'", 1), ("s not in ('a','x')", 1)):
            assert len(kept(table, parse_predicate(text))) == count, (kind, text)


def test_a_long_list_and_a_long_chain_are_filtered():
    table = pa.table({"i": list(range(100))})
    chain = " or ".join(f"i = {n}" for n in range(0, 10_000, 2))
    listed = f"i in ({', '.join(str(n) for n in range(0, 10_000, 2))})"
    for text in (chain, listed):
        assert table.filter(to_arrow(bind(parse_predicate(text), table.schema))).num_rows == 50
