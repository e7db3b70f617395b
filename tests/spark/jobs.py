"""Spark jobs of the tests in processes of their own, and what every Spark of the tests is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ROOT = Path(__file__).resolve().parents[2]


def quick_settings(place: str) -> dict[str, str]:
    """The settings of a session on this machine alone that leaves what it writes in a directory."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Djava.io.tmpdir={place}",
        "spark.local.dir": place,
        "spark.ui.showConsoleProgress": "false",
    }


def start_job(module: str, place: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Run `python -m tests.spark.MODULE PLACE ARGUMENTS` in a session of processes of its own.

    What it prints is appended to the file `output` in that place.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(place / "cache")}
    command = [sys.executable, "-m", f"tests.spark.{module}", str(place), *arguments]
    place.mkdir(exist_ok=True)
    with (place / "output").open("ab") as output:
        return subprocess.Popen(
            command, cwd=_ROOT, env=kept | own, stdout=output, stderr=output, start_new_session=True
        )
