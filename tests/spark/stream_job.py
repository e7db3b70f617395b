"""A stream from a table into a table in a process of its own, for a test that kills it.

`stream_job.py PLACE SOURCE SINK CHECKPOINT FILES`: FILES is how many a batch may hold. PLACE is a directory for what
Spark leaves behind; a file `begun` in it says that batches are under way.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from indextables.spark.java_runtime import java_home_for_spark


def main(place: str, source: str, sink: str, checkpoint: str, files: str) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={place}",
        "spark.local.dir": place,
        "spark.ui.showConsoleProgress": "false",
    }
    os.environ["JAVA_HOME"] = java_home_for_spark()
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    rows = spark.readStream.format("indextables").option("maxFilesPerTrigger", files).load(source)
    writer = rows.writeStream.format("indextables").option("path", sink).option("checkpointLocation", checkpoint)
    query = writer.option("checkpoint.interval", "4").trigger(availableNow=True).start()
    Path(place, "begun").touch()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
