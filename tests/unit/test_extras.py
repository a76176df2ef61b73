# SPDX-License-Identifier: Apache-2.0
"""Packages that come only when they are asked for: by their hash, where that may be done, and never unasked; and the
line that installs what is missing, in the words of the distribution."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from support.waiting import LONG_S, in_time
from tollmeter import commands, extras, installer
from tollmeter.extras import CHARTS, PARQUET, Extra, install_line
from tollmeter.model import Failure
from tollmeter.report import page

INSTALLS = """if True:
    import sys, sysconfig
    from pathlib import Path
    from tollmeter import extras
    from tollmeter.conduct import Stopping
    folder = Path(sys.argv[1])
    sysconfig.get_path = lambda _: folder / "site"
    extras._PIP = ("-c", sys.argv[2], folder)
    with Stopping(answer=(folder / "first").touch):
        extras.install_extra(folder, extras.CHARTS)
"""
PIP = """if True:
    import pathlib, sys, time
    folder, package = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[-1], "vl_convert")
    package.mkdir(parents=True)
    for _ in range(20000): (folder / "go").exists() or time.sleep(0.01)
    (package / "__init__.py").touch()
"""
LOCKED = re.compile(r"^([a-z0-9-]+)==", re.MULTILINE)
NOWHERE = Extra("requirements/nowhere.lock", "no_such_module", "doing nothing")


def test_what_is_there_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(extras, "install_extra")
    extras.bring(tmp_path, Extra("requirements/json.lock", "json", "reading"))


@pytest.mark.parametrize("allowed", [True, False])
def test_a_missing_package_is_installed_unless_that_is_forbidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], allowed: bool
) -> None:
    brought: list[Extra] = []
    monkeypatch.setattr(extras, "install_extra", lambda _, extra: brought.append(extra))
    monkeypatch.setenv("TOLL_INSTALL", "yes" if allowed else "no")
    if allowed:
        extras.bring(tmp_path, NOWHERE)
        assert "no_such_module" in capsys.readouterr().err
    else:
        with pytest.raises(Failure, match=r"--require-hashes -r requirements/nowhere.lock"):
            extras.bring(tmp_path, NOWHERE)
    assert brought == ([NOWHERE] if allowed else [])


@pytest.mark.parametrize("extra", [CHARTS, PARQUET])
def test_each_has_a_lock_file_with_hashes_of_the_version_that_is_here(extra: Extra, root: Path) -> None:
    words = [sys.executable, "-m", "tollmeter.installer", "install", "--dry-run", "--no-index", "-r", extra.lock]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=LONG_S)
    assert f"=={extras.version(root, extra)} in " in done.stdout, done.stderr
    assert "--hash=sha256:" in (root / extra.lock).read_text()


def test_a_page_s_script_is_made_by_a_package_that_does_not_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places: list[Path] = []

    def fetched(_: Path, extra: Extra, scratch: str) -> Path:
        assert extra == CHARTS
        places.append(Path(scratch))
        (places[0] / "vl_convert.py").write_text(f"def javascript_bundle(): return {'v' * page.LEAST_BYTES!r}\n")
        return places[0]

    monkeypatch.setattr(page, "is_installed", lambda _: False)
    monkeypatch.setattr(page, "fetched", fetched)
    assert page.chart_script_text(tmp_path) == "v" * page.LEAST_BYTES
    assert not places[0].exists()


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_script_is_made_beside_a_build_and_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_kept: bool
) -> None:
    """What goes on beside the samples of a run is in its numbers."""
    start = commands.start
    monkeypatch.setattr(extras, "chart_script", lambda _: Path(__file__) if is_kept else tmp_path / "missing")
    monkeypatch.setattr(commands, "start", lambda origin, _, **how: start(origin, ["sleep", "600"], **how))
    with extras.chart_script_made() as making:
        assert (making is None) is is_kept
    assert is_kept or (making and making.returncode == -signal.SIGINT)


def test_what_a_set_up_imports_is_in_the_lock_file(root: Path) -> None:
    """A verb that imports another package would fail only there. Here nothing else can be imported."""
    locked = {found[1].replace("-", "_") for found in LOCKED.finditer((root / "requirements/run.lock").read_text())}
    named = importlib.metadata.packages_distributions()
    others = [name for name, of in named.items() if not {one.lower().replace("-", "_") for one in of} & locked]
    script = """if True:
        import importlib, pkgutil, sys
        for name in sys.argv[1:]: sys.modules[name] = None
        import tollmeter
        for module in pkgutil.walk_packages(tollmeter.__path__, "tollmeter."):
            module.name.endswith("__main__") or importlib.import_module(module.name)"""
    done = subprocess.run([sys.executable, "-I", "-c", script, *others], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"pytest", "hypothesis"} <= set(others) and not {"numpy", "jinja2"} & set(others)


def test_an_environment_without_pip_has_python_s_own() -> None:
    assert any(wheel.name.startswith("pip-") for wheel in installer.wheels())


def sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S")


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_leaves_a_whole_package_or_none(tmp_path: Path, root: Path, signals: int) -> None:
    """At the end of a run the first one only asks for an early end, and the second one ends it."""
    site = tmp_path / "site"
    site.mkdir()
    words = [sys.executable, "-c", INSTALLS, tmp_path, PIP]
    environment = {"PYTHONPATH": str(root / "src")}
    with subprocess.Popen(words, stderr=subprocess.PIPE, process_group=0, env=environment) as process:
        # A signal between Python's last check and the system call that waits is not heard before that returns.
        assert in_time(lambda: list(site.rglob("vl_convert")) and sleeps(process.pid))
        os.killpg(process.pid, signal.SIGINT)
        assert in_time((tmp_path / "first").exists)
        if signals == 2:
            os.killpg(process.pid, signal.SIGINT)
        else:
            (tmp_path / "go").touch()
        said = process.communicate(timeout=LONG_S)[1]
    assert (b"KeyboardInterrupt" in said) == (signals == 2)
    assert [str(path.relative_to(site)) for path in site.rglob("*.py")] == ["vl_convert/__init__.py"] * (signals == 1)
    assert [path.name for path in site.iterdir()] == ["vl_convert"] * (signals == 1)


NATIVE = ["gcc-12", "g++-12", "libc6-dev", "make"]


def here(monkeypatch: pytest.MonkeyPatch, *programs: str, release: Collection[str] = ()) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
    monkeypatch.setattr(extras, "_packages_of_release", lambda: release)


@pytest.mark.parametrize(
    ("manager", "line"),
    [
        ("apt-get", "apt-get update && apt-get install --no-install-recommends gcc-12 g++-12 libc6-dev make"),
        ("dnf", "dnf install gcc gcc-c++ glibc-devel glibc-static make"),
        ("apk", "apk add gcc g++ musl-dev linux-headers make"),
        ("pacman", "pacman -S --needed gcc glibc linux-api-headers make"),
    ],
)
def test_each_distribution_has_its_own_words(manager: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, manager)
    assert install_line([*NATIVE, "make"]) == f"`{line}`"


def test_a_package_that_this_debian_release_lacks_is_not_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, "apt-get", release=["make", "gcc-14"])
    some = install_line(["make", "gcc-12-sparc64-linux-gnu"])
    assert some.endswith("--no-install-recommends make`; this Debian release has no gcc-12-sparc64-linux-gnu")
    assert install_line(["gcc-99", "g++-99"]) == "this Debian release has no gcc-99, g++-99"


def test_a_package_unknown_to_this_distribution_is_named_as_in_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, "dnf")
    told = install_line(["libc6-dev-i386", "lib32gcc-12-dev", "gcc-12-s390x-linux-gnu"])
    assert told.startswith("`dnf install glibc-devel.i686 glibc-static.i686 libgcc.i686`; ")
    assert "Debian calls gcc-12-s390x-linux-gnu" in told
    assert "dnf" not in install_line(["gcc-12-s390x-linux-gnu"])


def test_a_system_without_a_package_manager_gets_the_line_for_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch)
    assert install_line(["make"]).startswith("on Debian, `apt-get update && apt-get install")
