"""Bring the jars of a NameNode and a DataNode into `.hadoop/jars`, for the tests on a real HDFS.

The source package of PySpark 2.4.8 carries those of Hadoop 2.7.3; pip finds it by its name wherever packages come from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "pyspark==2.4.8"
PLACE = Path(__file__).resolve().parents[2] / ".hadoop" / "jars"
# The package describes itself through pandoc's Python library, and knows only its old form.
BUILD_CONSTRAINT = "pypandoc<1.8"
NEEDED = re.compile(
    r"(hadoop-(annotations|auth|common|hdfs)|apacheds-[a-z0-9-]+|api-(asn1-api|util)|avro|guava|htrace-core|log4j"
    r"|commons-(beanutils|cli|codec|collections|configuration|digester|io|lang|logging|math3|net)"
    r"|jackson-(core|mapper)-asl|javax\.servlet-api|javax\.ws\.rs-api|jetty(-util)?|jsr305|leveldbjni-all|netty(-all)?"
    r"|protobuf-java|slf4j-(api|log4j12)|xercesImpl|xmlenc)-\d.*\.jar"
)
_SECONDS = 600


def main() -> None:
    """Download and unpack, unless they are there already."""
    if PLACE.is_dir():
        return
    with tempfile.TemporaryDirectory(prefix="hadoop-") as place:
        archive = _download(Path(place))
        PLACE.parent.mkdir(exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(dir=PLACE.parent))
        num_jars = _unpack(archive, unpacked)
        unpacked.rename(PLACE)
    print(f"{num_jars} jars in {PLACE}")


def _download(place: Path) -> Path:
    constraint = place / "constraints.txt"
    constraint.write_text(BUILD_CONSTRAINT)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "pyspark"]
    environment = {**os.environ, "PIP_CONSTRAINT": str(constraint), "PIP_BUILD_CONSTRAINT": str(constraint)}
    subprocess.run([*command, "--dest", str(place), PACKAGE], env=environment, timeout=_SECONDS, check=True)
    return next(place.glob("pyspark-*.tar.gz"))


def _unpack(archive: Path, place: Path) -> int:
    num_jars = 0
    with tarfile.open(archive) as package:
        for member in package:
            name = member.name.rpartition("/")[2]
            content = package.extractfile(member) if NEEDED.fullmatch(name) else None
            if content is not None:
                with content, (place / name).open("wb") as jar:
                    shutil.copyfileobj(content, jar)
                num_jars += 1
    return num_jars


if __name__ == "__main__":
    main()
