# SPDX-License-Identifier: Apache-2.0
"""./toll from anywhere, at once, read-only, with what is missing: what is asked for is set up and built where it is
stale, once, or one line says why not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.bare_debian import APT_GET, asked, calls, fakes, program
from support.waiting import LONG_S, in_time
from tollmeter.model import Abi
from tollmeter.toolchain.build import find_compiler

INFRASTRUCTURE, NOTHING_RAN, INTERRUPTED = 5, 6, 130
EVERYWHERE = """sh bash env readlink dirname uname mkdir touch flock find cmp cp rm grep xargs sed tr sort paste
  cat date sleep tail id awk"""
ROOT = Path(__file__).resolve().parents[2]
ECHO = """import json, os, sys
told = {'words': sys.argv[1:], 'cwd': os.getcwd(), 'path': sys.path, 'command': os.environ['TOLL_COMMAND']}
print(json.dumps(told))
"""
# Stands for the interpreter of .venv: it notes what it was asked, and fails on demand.
PYTHON = """#!/bin/sh
echo "$*" >>calls
case "$*" in
  *installer*)
    [ ! -e pip-fails ] || exit 1
    printf '  %s-1-py3-none-any.whl (%s)\n' 'Downloading a' '1.5 MB' 'Using cached b' '300 kB' ;;
esac
"""


def start(tree: Path, *words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tree / "toll", *words],
        cwd=cwd or tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
    )


@pytest.fixture(scope="module")
def _set_up(_built_tree: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("set up") / "toll meter"
    shutil.copytree(_built_tree, tree)
    shutil.copytree(root / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(root / "requirements", tree / "requirements", dirs_exist_ok=True)
    for script in root.glob("build/vega-*.js"):
        shutil.copy2(script, tree / "build")
    (tree / ".venv").symlink_to(root / ".venv")
    done = start(tree, "--set-up")
    assert done.returncode == 0, done.stderr
    assert "ready: 1 probes" in done.stderr
    return tree


@pytest.fixture
def ready(_set_up: Path, tmp_path: Path) -> Path:
    """A checkout that is set up, with the real virtual environment. It is one test's alone: a copy, with the times of
    what it was copied from, so that nothing is stale."""
    return Path(shutil.copytree(_set_up, tmp_path / "toll meter", symlinks=True))


@pytest.fixture
def echoing(ready: Path) -> Path:
    """Its command echoes what it was given."""
    (ready / "src/tollmeter/__main__.py").write_text(ECHO)
    return ready


@pytest.fixture
def hollow(tree: Path) -> Path:
    """A checkout whose virtual environment only notes what it is asked to do, on a machine without packages."""
    program(tree / ".venv/bin/python", PYTHON)
    shutil.copy(tree / "requirements/run.lock", tree / ".venv")
    (tree / "src/tollmeter").mkdir(parents=True)
    (tree / "src/tollmeter/__main__.py").touch()
    return tree


def test_words_and_folder_of_the_caller_arrive_unchanged(echoing: Path, tmp_path: Path) -> None:
    words = ["run", "two words", "*", "--flag=", ""]
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the folder of the caller')\n")
    link = tmp_path / "link"
    link.symlink_to(echoing / "toll")
    done = start(echoing, *words, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["words"], told["cwd"]) == (words, str(tmp_path))
    assert str(echoing / "src") in told["path"]
    by_link = subprocess.run([link, "list"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(by_link.stdout)["words"] == ["list"]
    assert (told["command"], json.loads(by_link.stdout)["command"]) == (str(echoing / "toll"), str(link))


def test_functions_that_bash_exports_are_timed(ready: Path, tmp_path: Path) -> None:
    """The shell that reads ./toll drops variables whose names it cannot have."""
    line = 'f() { printf "%s\\n" called; }; export -f f; exec ./toll time -S bash -r 3 --output "$1" f --beside'
    environment = {**os.environ, "TOLL_LOCK": str(tmp_path), "a.b": "1"}
    done = subprocess.run(
        ["bash", "-c", line, "bash", tmp_path / "said"], cwd=ready, env=environment, capture_output=True, text=True,
        check=False, timeout=LONG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text() == "called\n"


def _change(tree: Path) -> None:
    with (tree / "probes/kernel/loop.c").open("a") as source:
        source.write("\n")


def test_a_probe_that_does_not_compile_stops_the_command(ready: Path) -> None:
    with (ready / "probes/kernel/loop.c").open("a") as source:
        source.write("static int unused;\n")
    done = start(ready, "run", "kernel.loop")
    assert (done.returncode, done.stdout) == (1, "")
    assert "loop.c" in done.stderr


def without_compilers(tmp_path: Path) -> dict[str, str]:
    """A PATH with what any system has, and no compiler, make or apt."""
    found = {"python3": os.path.realpath(sys.executable), **{name: shutil.which(name) for name in EVERYWHERE.split()}}
    (tmp_path / "bin").mkdir()
    for name, path in found.items():
        (tmp_path / "bin" / name).symlink_to(path or "missing")
    return {"PATH": str(tmp_path / "bin"), "XDG_CONFIG_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    "words",
    [["--help"], ["show", "there"], ["report", "there"], ["export", "there"], ["list", "runs"], ["run", "--help"]],
)
def test_what_only_reads_needs_no_compiler(echoing: Path, tmp_path: Path, words: list[str]) -> None:
    shutil.rmtree(echoing / "build")
    done = start(echoing, *words, **without_compilers(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["words"] == words
    assert not (echoing / "build").exists()


def test_probes_are_listed_and_none_is_run_without_a_compiler(ready: Path, tmp_path: Path) -> None:
    shutil.rmtree(ready / "build")
    bare = without_compilers(tmp_path)
    listed = start(ready, "list", "probes", **bare)
    assert (listed.returncode, "kernel.loop" in listed.stdout) == (0, True), listed.stderr
    assert not listed.stderr
    ran = start(ready, "run", "kernel.loop", **bare)
    assert (ran.returncode, ran.stdout) == (NOTHING_RAN, "")


def test_a_ctrl_c_in_the_build_is_one_word(ready: Path, own_abi: Abi) -> None:
    # The compiler's stand-in passes the trial, and then takes its time. A shell outlives the signal where
    # the command that it waits for does, and goes on to its next one: that is soon over too.
    compiler = find_compiler(own_abi)
    slow = ready / "fakes/slow-cc"
    program(slow, f'#!/bin/sh\ncase $* in *" -MMD "*) touch building; sleep 5 ;; esac\nexec {compiler} "$@"\n')
    path = ready / f"abis/{own_abi.name}.toml"
    path.write_text(re.sub(r"(?m)^compiler = .*", 'compiler = ["slow-cc"]', path.read_text()))
    environment = {**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    words = [ready / "toll", "run", "kernel.loop"]
    with subprocess.Popen(
        words, cwd=ready, env=environment, stderr=subprocess.PIPE, text=True, process_group=0
    ) as launcher:
        assert in_time((ready / "building").exists)
        os.killpg(launcher.pid, signal.SIGINT)
        _, told = launcher.communicate(timeout=LONG_S)
    assert launcher.returncode == INTERRUPTED
    assert "Traceback" not in told
    assert told.splitlines()[-1] == "toll: interrupted"


def test_starts_at_once_set_up_once(ready: Path) -> None:
    _change(ready)
    started = [
        subprocess.Popen([ready / "toll", "--set-up"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [one.communicate(timeout=LONG_S) for one in started]
    assert [one.returncode for one in started] == [0] * 4
    assert all("ready: 1 probes" in err for _, err in said)
    assert sum("built" in err for _, err in said) == 1


def read_only(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Starts ./toll in a checkout that nobody can write to: for root, without the right to write all the same."""
    powers = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    subprocess.run(["chmod", "-R", "a-w", tree], check=True)
    try:
        return subprocess.run(
            [*powers, tree / "toll", *words], cwd="/", capture_output=True, text=True, check=False, timeout=LONG_S
        )
    finally:
        subprocess.run(["chmod", "-R", "u+w", tree], check=True)


def test_a_read_only_checkout_works_once_it_is_set_up(ready: Path, own_abi_name: str) -> None:
    for words in (["list"], ["layout", "--abi", own_abi_name]):
        done = read_only(ready, *words)
        assert (done.returncode, done.stdout != "") == (0, True), done.stderr
    (ready / f"build/{own_abi_name}/kernel.loop").unlink()
    done = read_only(ready, "run", "kernel.loop")
    assert (done.returncode, done.stdout) == (INFRASTRUCTURE, "")
    assert len(done.stderr.splitlines()) == 1 and "cannot be written to" in done.stderr


def test_a_changed_lock_file_is_installed_by_hash_and_only_once(hollow: Path) -> None:
    with (hollow / "requirements/run.lock").open("a") as lock:
        lock.write("# newer\n")
    for _ in range(2):
        assert start(hollow, "list", **fakes(hollow, 1000)).returncode == 0
    (install,) = (call for call in calls(hollow) if "installer" in call)
    assert install.endswith("--require-hashes -r requirements/run.lock")
    assert [call for call in calls(hollow) if call.endswith("tollmeter list")] == ["-I -m tollmeter list"] * 2


def test_packages_that_cannot_be_fetched_stop_the_command_each_time(hollow: Path) -> None:
    (hollow / "pip-fails").touch()
    (hollow / ".venv/run.lock").write_text("older\n")
    for _ in range(2):
        done = start(hollow, "list", **fakes(hollow, 1000))
        assert done.returncode == INFRASTRUCTURE
        assert not [call for call in calls(hollow) if call.endswith("tollmeter list")]


def test_a_python_without_venv_is_one_sentence(hollow: Path) -> None:
    shutil.rmtree(hollow / ".venv")
    program(hollow / "fakes/python3", '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\n')
    done = start(hollow, "list", **fakes(hollow, 1000))
    assert (done.returncode, done.stdout) == (INFRASTRUCTURE, "")
    assert "python3-venv" in line_to_paste(done.stderr)
    assert not (hollow / ".venv").exists()


def test_a_user_without_python_gets_one_line_for_all_that_a_run_needs(hollow: Path, tmp_path: Path) -> None:
    shutil.rmtree(hollow / ".venv")
    shutil.copytree(ROOT / "abis", hollow / "abis", dirs_exist_ok=True)
    path = without_compilers(tmp_path)["PATH"]
    (tmp_path / "bin/python3").unlink()
    program(hollow / "fakes/uname", "#!/bin/sh\necho x86_64\n")
    bare = {**fakes(hollow, 1000), "PATH": f"{hollow / 'fakes'}:{path}"}
    done = start(hollow, "run", **bare)
    assert (done.returncode, done.stdout) == (INFRASTRUCTURE, "")
    line = line_to_paste(done.stderr)
    assert len(line) < 200
    assert {"python3", "python3-venv", "gcc-12", "g++-12", "libc6-dev-i386", "musl-tools"} <= set(line.split())
    assert not {"make", "gcc-12-multilib", "gcc-12-aarch64-linux-gnu"} & set(line.split()), "there, or not asked for"
    (hollow / "prebuilt").mkdir()
    assert line_to_paste(start(hollow, "run", **bare).stderr).split()[-2:] == ["python3", "python3-venv"]


def line_to_paste(said: str) -> str:
    """The only line that installs something."""
    (line,) = (line for line in said.splitlines() if "apt-get" in line)
    assert line.startswith("    apt-get "), line
    return line.strip()


def needs_tests(hollow: Path) -> None:
    """What a set-up of the tests reads."""
    (hollow / "tests/support").mkdir(parents=True)
    for name in ("requirements/dev.lock", "tests/support/vega_lite.py"):
        (hollow / name).touch()


def test_root_gets_what_is_missing_and_this_debian_has(hollow: Path) -> None:
    needs_tests(hollow)
    for abi in ("arm-soft", "arm-hard", "x32"):
        shutil.copy(ROOT / f"abis/{abi}.toml", hollow / "abis")
    done = start(hollow, "--set-up-tests", **fakes(hollow, 0))
    assert done.returncode == 0, done.stderr
    update, fetch, unpack = (call for call in calls(hollow) if call.startswith("-q"))
    assert update.endswith("update")
    assert fetch.replace(" --download-only", "") == unpack
    assert "--no-install-recommends" in unpack
    assert {"chromium", "clang", "qemu-user", "g++-12-arm-linux-gnueabihf", "gcc-12-multilib"} <= set(unpack.split())
    would_start = Path("/run/systemd/system").is_dir() or Path("/run/initctl").is_fifo()
    assert ("openssh-server" in unpack.split()) != would_start
    assert not {"make", "shellcheck"} & set(unpack.split())


def test_the_tests_have_the_schema_of_the_version_that_they_name(hollow: Path) -> None:
    needs_tests(hollow)
    schema = hollow / "tests/support/vega_lite.py"
    for version in ("", "newer\n", "newer\n"):
        schema.write_text(version)
        done = start(hollow, "--set-up-tests", **fakes(hollow, 0))
        assert done.returncode == 0, done.stderr
    assert calls(hollow).count("-I tests/support/vega_lite.py") == 2


def test_a_step_says_how_much_was_fetched(hollow: Path) -> None:
    (hollow / ".venv/run.lock").write_text("older\n")
    (line,) = start(hollow, "list", **fakes(hollow, 1000)).stderr.splitlines()
    assert re.fullmatch(r"toll: installing the Python packages \.\.\. \d s, 1\.8 MB in 2 packages", line)
    fetch = start(hollow, "--install", "qemu-user", **fakes(hollow, 0)).stderr.splitlines()[1]
    assert re.fullmatch(r"toll: fetching qemu-user \.\.\. \d s, 97\.3 MB in 2 packages", fetch)


# ---- packages by name -----------------------------------------------------------------------------------------------


def test_packages_are_installed_at_once_and_only_those_that_are_missing(hollow: Path) -> None:
    words = ("--install", "make", "qemu-user", "gcc-12-s390x-linux-gnu")
    done = start(hollow, *words, **fakes(hollow, 0))
    assert done.returncode == 0, done.stderr
    assert [asked(call) for call in calls(hollow)] == [
        ["update"],
        ["install", "-y", "--no-install-recommends", "--download-only", "gcc-12-s390x-linux-gnu", "qemu-user"],
        ["install", "-y", "--no-install-recommends", "gcc-12-s390x-linux-gnu", "qemu-user"],
    ]
    assert len(done.stderr.splitlines()) == 3
    assert (start(hollow, *words, **fakes(hollow, 0)).stderr, len(calls(hollow))) == ("", 3)
    start(hollow, "--install", "qemu-system-arm", **fakes(hollow, 0))
    assert not [call for call in calls(hollow)[3:] if call.endswith("update")], "the lists were read a moment ago"


@pytest.mark.parametrize(("user", "word"), [(1000, ""), (0, "no")])
def test_packages_are_only_named_where_they_may_not_be_installed(user: int, word: str, hollow: Path) -> None:
    done = start(hollow, "--install", "qemu-user", **{**fakes(hollow, user), "TOLL_INSTALL": word})
    assert (done.returncode, calls(hollow)) == (0, [])
    assert "apt-get update && apt-get install --no-install-recommends qemu-user" in done.stderr


def test_one_package_that_cannot_be_had_keeps_no_other_away(hollow: Path) -> None:
    done = start(hollow, "--install", "broken", "qemu-user", **fakes(hollow, 0), APT_REFUSES="broken")
    assert done.returncode == 0
    assert "left out broken" in done.stderr
    there = (hollow / "there").read_text().split()
    assert ("qemu-user" in there, "broken" in there) == (True, False)


def test_a_long_step_shows_that_it_goes_on(hollow: Path) -> None:
    done = start(hollow, "--install", "qemu-user", **fakes(hollow, 0), APT_LASTS="6")
    (line,) = (line for line in done.stderr.splitlines() if "installing" in line)
    assert re.fullmatch(r"toll: installing them \.\.\. \.[67] s", line)


def test_what_was_fetched_does_not_stay(hollow: Path) -> None:
    start(hollow, "--install", "qemu-user", **fakes(hollow, 0))
    assert all(f"Dir::Cache::archives={hollow}/build/fetched" in call for call in calls(hollow))
    assert not (hollow / "build/fetched").exists()


@pytest.mark.parametrize(("manager", "line"), [("dnf", "dnf install python3"), ("pacman", "pacman -S python")])
def test_on_another_distribution_the_message_has_its_own_install_line(
    hollow: Path, tmp_path: Path, manager: str, line: str
) -> None:
    shutil.rmtree(hollow / ".venv")
    bare = without_compilers(tmp_path)
    (tmp_path / "bin/python3").unlink()
    program(tmp_path / "bin" / manager, "#!/bin/sh\n")
    done = start(hollow, "run", **bare)
    assert done.returncode == INFRASTRUCTURE
    assert done.stderr.splitlines()[-1].endswith(f": {line}")


def test_an_apt_that_fails_is_said_and_the_rest_goes_on(hollow: Path) -> None:
    done = start(hollow, "--install", "qemu-user", **fakes(hollow, 0), APT_REFUSES="install")
    assert done.returncode == 0
    assert "cannot be installed" in done.stderr.splitlines()[-1]
    assert not (hollow / "there").exists()


def test_a_list_that_another_apt_reads_is_waited_for(hollow: Path) -> None:
    environment = fakes(hollow, 0)
    held = '[ -e waited ] || { touch waited; echo "E: Could not get lock x. It is held"; exit 100; }'
    program(hollow / "fakes/apt-get", APT_GET.replace("calls\n", f"calls\n{held}\n", 1))
    done = start(hollow, "--install", "qemu-user", **environment)
    assert [asked(call)[0] for call in calls(hollow)] == ["update", "update", "install", "install"]
    assert "failed" not in done.stderr


def test_a_ctrl_c_leaves_no_package_half_installed(hollow: Path) -> None:
    environment = {**os.environ, **fakes(hollow, 0), "APT_LASTS": "1"}
    words = [hollow / "toll", "--install", "qemu-user"]
    with subprocess.Popen(words, cwd=hollow, env=environment, stderr=subprocess.PIPE, process_group=0) as launcher:
        assert in_time((hollow / "unpacking").exists)
        os.killpg(launcher.pid, signal.SIGINT)
        launcher.communicate(timeout=LONG_S)
    assert launcher.returncode == INTERRUPTED
    assert "qemu-user" in (hollow / "there").read_text().split()
