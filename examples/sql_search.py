"""Searches in Spark SQL: operators with joins, scores, time travel, aggregations.

    python examples/sql_search.py

It works in a temporary directory, which is removed at the end. It needs `pip install 'indextables[spark]'`, which also
installs a Java for machines without one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import indextables as it

NUM_TICKETS = 3_000
CREATE = """
    CREATE TABLE tickets (id BIGINT, day DATE, team STRING, title STRING, body STRING, hours DOUBLE)
    USING indextables PARTITIONED BY (day) LOCATION '{place}'
    TBLPROPERTIES ('indexing.title' = 'text', 'indexing.body' = 'text')
"""
FILL = """
    INSERT INTO tickets
    SELECT id, date_add(DATE '2026-05-01', CAST(id % 5 AS INT)),
           element_at(array('billing', 'search', 'login'), CAST(id % 3 + 1 AS INT)),
           element_at(array('Invoice is wrong', 'Results are slow', 'Cannot sign in', 'Invoice not sent'),
                      CAST(id % 4 + 1 AS INT)),
           concat('Customer ', id, CASE WHEN id % 100 = 7 THEN ' reports a timeout in checkout'
                                        WHEN id % 50 = 3 THEN ' asks for a refund' ELSE ' says hello' END),
           id % 24 / 2
    FROM range({first}, {last})
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sql-search-") as directory:
        place = Path(directory)
        config = {"spark.indextables.cache.disk.path": str(place / "cache"), "spark.sql.warehouse.dir": directory}
        spark = it.spark.session(config=config)
        try:
            run(spark, place / "tickets")
        finally:
            spark.stop()
    return 0


def run(spark: SparkSession, place: Path) -> None:
    title(f"{NUM_TICKETS:,} tickets in a table with a name")
    spark.sql(CREATE.format(place=place))
    spark.sql(FILL.format(first=0, last=NUM_TICKETS // 2))
    spark.sql(FILL.format(first=NUM_TICKETS // 2, last=NUM_TICKETS))

    title("The best tickets about a timeout or a refund")
    best = spark.sql("""
        SELECT id, team, score() AS score, snippet(body) AS found FROM tickets
        WHERE body TEXTSEARCH 'timeout OR refund' AND day = DATE '2026-05-03' ORDER BY score() DESC, id LIMIT 4
    """)
    best.show(truncate=False)
    check(["<b>" in row.found for row in best.collect()], [True] * 4)

    title("A search that the index decides, and one that values decide")
    spark.sql("SELECT id FROM tickets WHERE body TEXTSEARCH 'timeout'").explain()
    either = spark.sql("SELECT count(*) AS n FROM tickets WHERE body TEXTSEARCH 'timeout' OR hours > 11").first()
    plain = spark.sql("SELECT count(*) AS n FROM tickets WHERE body LIKE '%timeout%' OR hours > 11").first()
    check(either.n, plain.n)

    title("Teams by the words of their customers, with a join and a parameter")
    spark.createDataFrame(
        [("billing", "Ann"), ("search", "Bo"), ("login", "Cy")], "team string, lead string"
    ).createOrReplaceTempView("teams")
    by_team = spark.sql(
        """
        SELECT lead, count(*) AS tickets, count_if(title TEXTSEARCH 'invoice') AS invoices
        FROM tickets JOIN teams USING (team) WHERE * TEXTSEARCH :words GROUP BY lead ORDER BY lead
        """,
        {"words": "timeout AND checkout"},
    )
    by_team.show()
    check([row.tickets for row in by_team.collect()], [10, 10, 10])

    title("Counts by the index alone, and a search of version 1")
    spark.sql("""
        SELECT * FROM indextables_histogram(tickets, 'hours', interval => 4, search => 'body:refund')
    """).show()
    before = spark.sql(
        "SELECT count(*) AS n FROM indextables_table(tickets, version => 1, search => 'timeout')"
    ).first()
    check(before.n, NUM_TICKETS // 200)

    title("The versions of the table")
    history = spark.sql("DESCRIBE INDEXTABLES HISTORY tickets LIMIT 3").select("version", "operation", "records_added")
    history.show()
    check([row.version for row in history.collect()], [2, 1, 0])


def check(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"expected {expected}, but found {found}")


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    sys.exit(main())
