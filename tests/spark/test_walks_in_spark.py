"""Two of the five walks, a save and a search in SQL, counted by a proxy before an object store: all processes count."""

from __future__ import annotations

import pytest
from tests.walks import counting_proxy, promised

import indextables as it
from indextables.spark.scan import planned_scan


@pytest.fixture
def counted(enabled, servers):
    """An enabled session, the address of a table on S3, and the requests that all processes make there."""
    server = servers("moto")
    with counting_proxy(server.endpoint) as (endpoint, requests):
        options = server.behind(endpoint)
        for key, value in options.items():
            enabled.conf.set(f"spark.indextables.{key}", str(value).lower() if isinstance(value, bool) else str(value))
        yield enabled, f"{server.url}/walks/logs", requests, options


def test_walks(counted, monkeypatch) -> None:
    # On a busy machine the phases of a query may be further apart than a second.
    monkeypatch.setattr(planned_scan, "_SETTLED_SECONDS", 60.0)
    session, url, requests, options = counted
    rows = session.range(0, 90, 1, 2).selectExpr("id", "concat('word', id) AS message")
    writer = rows.write.format("indextables").mode("append").option("indexing.message", "text")
    writer.save(url)
    writer.save(url)
    requests.taken()
    it.Table(url, options=options)
    opening = requests.counts()
    writer.save(url)
    assert requests.counts() == promised()["Spark save, 2 tasks"]
    assert opening == {"LIST": 1, "GET": 4, "RANGE": 0, "HEAD": 0, "PUT": 0, "DELETE": 0}
    query = f"SELECT id FROM indextables.`{url}` WHERE message indexquery 'word77'"
    for walk in ("SQL search, cold", "SQL search, warm"):
        assert [row.id for row in session.sql(query).collect()] == [77, 77, 77]
        assert requests.counts() == promised()[walk]
