"""What the page on storage says is true: its example runs, and every key that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.servers import running

from indextables.config import lookup

PAGE = Path(__file__).resolve().parents[2] / "docs" / "storage.md"


def test_the_examples_run() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert "http://127.0.0.1:9000" in code
    with running("moto", Path()) as server:
        endpoint = server.endpoint
        exec(compile(code.replace("http://127.0.0.1:9000", endpoint), str(PAGE), "exec"), {})


def test_every_key_is_a_setting() -> None:
    named = set(re.findall(r"[`\"]((?:store|aws|azure|gcs|checkpoint|state)\.[A-Za-z.]+)[`\"]", PAGE.read_text()))
    assert len(named) > 30
    assert not [name for name in named if lookup.find(name) is None]
