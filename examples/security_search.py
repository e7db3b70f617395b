"""A security search with Spark: find events, join assets, users and a threat list.

    python examples/security_search.py

It works in a temporary directory, which is removed at the end. It needs `pip install 'indextables[spark]'`, which also
installs a Java for machines without one.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import indextables as it

EVENTS = "ts timestamp, day date, kind string, host string, user string, address string, message string"
ASSETS = "host string, owner string, tier int"
USERS = ("ada", "bob", "chen", "dana", "mallory")
HOSTS = ("web-1", "web-2", "db-1", "vault-1")
BAD_ADDRESSES = [("203.0.113.66", "credential stuffing"), ("198.51.100.7", "scanner")]
START = dt.datetime(2026, 4, 1, tzinfo=dt.UTC)
NUM_EVENTS = 6_000


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="security-search-") as directory:
        place = Path(directory)
        spark = it.spark.session(config={"spark.indextables.cache.disk.path": str(place / "cache")})
        try:
            run(spark, str(place / "events"), str(place / "assets"))
        finally:
            spark.stop()
    return 0


def run(spark: SparkSession, events: str, assets: str) -> None:
    title(f"{NUM_EVENTS:,} events of three days, and a table of machines")
    write_events(spark.createDataFrame(made_events(), EVENTS), events)
    machines = [(host, "ops" if host.startswith("web") else "data", 1 + HOSTS.index(host) // 2) for host in HOSTS]
    spark.createDataFrame(machines, ASSETS).write.format("indextables").save(assets)
    it.read(spark, events).groupBy("day", "kind").count().orderBy("day", "kind").show()

    title("Failed logins on one day, by user")
    failed = it.read(spark, events, search='"failed password"', where="kind = 'login' AND day = '2026-04-02'")
    by_user = failed.groupBy("user").count().orderBy(f.desc("count"), "user")
    by_user.show()
    check(by_user.first()["user"], "mallory")
    same = "message LIKE '%failed password%' AND kind = 'login' AND day = '2026-04-02'"
    check(failed.count(), scanned(spark, events).where(same).count())

    title("Failed logins from addresses of a threat list, on important machines")
    threats = spark.createDataFrame(BAD_ADDRESSES, "address string, threat string")
    machines_that_matter = scanned(spark, assets).where("tier = 2")
    suspicious = (
        it.read(spark, events, search='"failed password" AND NOT user:ada')
        .join(f.broadcast(threats), "address")
        .join(machines_that_matter, "host")
        .groupBy("user", "host", "owner", "threat")
        .agg(f.count("*").alias("attempts"), f.max("ts").alias("last"))
        .orderBy(f.desc("attempts"), "host")
    )
    suspicious.show(5, truncate=False)
    check([(row["host"], row["attempts"]) for row in suspicious.collect()], [("db-1", 50), ("vault-1", 50)])

    title("Rare processes: the rarer the words, the higher the score")
    rare = it.read(
        spark,
        events,
        search="message:(mimikatz OR procdump OR backup)",
        where="kind = 'process'",
        columns=["ts", "host", "user"],
        score=True,
        snippet="message",
    ).orderBy(f.desc("_score"), "ts")
    rare.show(4, truncate=False)
    check({row["user"] for row in rare.take(2)}, {"mallory", "dana"})

    title("Users who ran them, and who failed to log in before, on the same machine and day")
    ran = it.read(spark, events, search="mimikatz OR procdump", columns=["day", "host", "user", "message"])
    before = it.read(spark, events, search='"failed password"', columns=["day", "host", "user"])
    failures = before.groupBy("day", "host", "user").agg(f.count("*").alias("failed_logins"))
    case = ran.join(failures, ["day", "host", "user"]).select("day", "host", "user", "failed_logins", "message")
    case.orderBy("day", "host").show(truncate=False)
    check([(row["host"], row["user"], row["failed_logins"]) for row in case.collect()], [("vault-1", "mallory", 50)])


def write_events(events: DataFrame, table: str) -> None:
    writer = events.write.format("indextables").mode("append").partitionBy("day")
    writer.option("indexing.message", "text").option("indexing.typemap.address", "ip").save(table)


def scanned(spark: SparkSession, table: str) -> DataFrame:
    """Return all rows of a table, by Spark's own Parquet scan."""
    return spark.read.format("indextables").load(table)


def made_events() -> list[tuple[Any, ...]]:
    """Return logins and processes, the same at every run; mallory is the attacker."""
    events = []
    for number in range(NUM_EVENTS):
        ts = START + number * dt.timedelta(days=3) / NUM_EVENTS
        host, user, address = HOSTS[number % 4], USERS[number % 4], f"10.0.{number % 7}.{number % 200 + 1}"
        if number % 3 == 0:
            kind, message = "process", "backup.sh started by cron" if number % 9 == 0 else "nginx: worker started"
        elif number % 37 == 1:
            kind, message = "login", "failed password, attempt 1 of 3"
        else:
            kind, message = "login", "accepted publickey for ssh"
        if START.day + 1 == ts.day and number % 20 == 7:
            which = number // 20 % 2
            kind, host, user, address = "login", HOSTS[2 + which], "mallory", BAD_ADDRESSES[which][0]
            message = f"failed password, attempt {number % 3 + 1} of 3"
        if number == NUM_EVENTS // 2 + 3:
            kind, host, user, message = "process", "vault-1", "mallory", "mimikatz started from /tmp by bash"
        if number == NUM_EVENTS - 9:
            kind, host, user, message = "process", "web-1", "dana", "procdump of a crashed worker"
        events.append((ts, ts.date(), kind, host, user, address, message))
    return events


def check(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"expected {expected}, but found {found}")


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    sys.exit(main())
