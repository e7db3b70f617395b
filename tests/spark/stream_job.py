"""A stream from a table into a table in a process of its own, for a test that kills it.

`python -m tests.spark.stream_job PLACE SOURCE SINK CHECKPOINT FILES`: FILES is how many a batch may hold.
PLACE is a directory for what Spark leaves behind; a file `begun` in it says that batches are under way.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.jobs import quick_settings

from indextables.spark.jvm.java_runtime import java_home_for_spark


def main(place: str, source: str, sink: str, checkpoint: str, files: str) -> None:
    os.environ["JAVA_HOME"] = java_home_for_spark()
    spark = SparkSession.builder.master("local[2]").config(map=quick_settings(place)).getOrCreate()
    rows = spark.readStream.format("indextables").option("maxFilesPerTrigger", files).load(source)
    writer = rows.writeStream.format("indextables").option("path", sink).option("checkpointLocation", checkpoint)
    query = writer.option("checkpoint.interval", "4").trigger(availableNow=True).start()
    Path(place, "begun").touch()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
