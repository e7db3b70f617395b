"""A notebook shows a line below a cell while Spark works for it, and only then."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from indextables.errors import ConfigError
from indextables.spark.jvm.java_runtime import find_java

pytestmark = pytest.mark.slow

SLOW_JOB = "spark.sparkContext.parallelize(range(8), 8).map(lambda _: __import__('time').sleep(0.5)).count()"

# A shell and a display that write down what they are told, where IPython may not be installed.
STAND_INS = """
import json, sys, types

class Events:
    def __init__(self):
        self.callbacks = {"pre_run_cell": [], "post_run_cell": []}
    def register(self, event, function):
        self.callbacks[event].append(function)
    def unregister(self, event, function):
        self.callbacks[event].remove(function)
    def fire(self, event):
        for function in list(self.callbacks[event]):
            function(None)

class Handle:
    def update(self, content, raw):
        lines.append(content["text/plain"])

def display(content, raw, display_id):
    lines.append(content["text/plain"])
    return Handle()

lines = []
events = Events()
shell = types.SimpleNamespace(events=events, kernel=None)
sys.modules["ipykernel"] = types.ModuleType("ipykernel")
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
sys.modules["IPython.display"] = types.SimpleNamespace(display=display)
"""


@pytest.fixture(autouse=True)
def java():
    try:
        return find_java()
    except ConfigError as error:
        pytest.skip(str(error))


def test_a_line_comes_with_the_work_and_goes_with_it(tmp_path):
    code = f"""{STAND_INS}
from indextables.spark.sessions.local import session
spark = session(master="local[2]", enable=False)
{SLOW_JOB}
events.fire("post_run_cell")
busy, lines = lines, []
events.fire("pre_run_cell")
events.fire("post_run_cell")
idle, lines = lines, []
events.fire("pre_run_cell")
spark.stop()
events.fire("post_run_cell")
events.fire("pre_run_cell")
left = sum(map(len, events.callbacks.values()))
spark = session(master="local[2]", enable=False, progress=False)
print(json.dumps([busy, idle, left, sum(map(len, events.callbacks.values()))]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    busy, idle, left, unwanted = json.loads(done.stdout)
    assert any("of 8 tasks done" in line for line in busy)
    assert busy[-1] == ""
    assert (idle, left, unwanted) == ([], 0, 0)


def test_a_real_notebook_shares_one_session_and_shows_progress(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    shown = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in ("display_data", "update_display_data"):
                shown.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    start = "from indextables.spark.sessions.local import session\nspark = session(master='local[2]', enable=False)"
    again = "session(enable=False) is spark"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (start, again, SLOW_JOB)])
    Client(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": os.fspath(tmp_path)}}
    ).execute()
    first, second, third = (cell.outputs for cell in notebook.cells)
    assert first == []
    assert second[0].data["text/plain"] == "True"
    assert third[-1].data["text/plain"] == "8"
    assert any("of 8 tasks done" in line for line in shown)
