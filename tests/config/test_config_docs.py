"""The page on configuration is the settings' own, and the file in `docs/` is that page."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.config import docs, settings

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_file_is_the_page():
    assert docs.main(["--check", str(PAGE)]) == 0


def test_every_setting_stands_in_one_row():
    lines = docs.render().splitlines()
    keys = [setting.key for setting in settings.ALL] + [f"{family.key}.<field>" for family in settings.FAMILIES]
    for key in keys:
        assert sum(line.startswith(f"| `{key}` |") for line in lines) == 1, key
    assert sum(line.startswith("| `") for line in lines) == len(keys)


def test_every_row_has_five_cells():
    rows = [line for line in docs.render().splitlines() if line.startswith("| `")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}


@pytest.mark.parametrize(
    "row",
    [
        "| `checkpoint.interval` | `10` | a whole number of at least 1 |",
        "| `merge.targetSize` | `5G` | a size of at least 1, ",
        "| `aws.secretKey` | from the environment | text that is not empty (secret) |",
        "| `purge.parallelism` | `auto` | a whole number of at least 1, or `auto` |",
        "| `state.compaction.largeRemoveThreshold` | `none` |",
        "| `aws.pathStyleAccess` | from the environment | `true` or `false` |",
    ],
)
def test_rows_show_default_and_bounds(row: str):
    assert f"\n{row}" in docs.render()


def test_the_page_is_printed(capsys: pytest.CaptureFixture[str]):
    assert docs.main([]) == 0
    assert capsys.readouterr().out == docs.render()


def test_a_page_is_written_and_then_checks(tmp_path: Path):
    page = tmp_path / "page.md"
    assert docs.main(["--write", str(page)]) == 0
    assert docs.main(["--check", str(page)]) == 0


@pytest.mark.parametrize("content", [None, "", "# something else"])
def test_a_check_fails_with_a_message(content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "page.md"
    if content is not None:
        page.write_text(content)
    assert docs.main(["--check", str(page)]) == 1
    assert f"--write {page}" in capsys.readouterr().err
