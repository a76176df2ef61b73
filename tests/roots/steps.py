# SPDX-License-Identifier: Apache-2.0
"""What each kind of user does in a bare system, and what must come of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from roots import watching
from roots.system import COLLEAGUE, NAMELESS, ORDINARY, ROOT, System, User

CHECKOUT = Path(__file__).resolve().parents[2]
THERE = "/srv/tollmeter"
DONE, UNANSWERED, INFRASTRUCTURE, NOTHING_RAN = 0, 1, 5, 6
# A short run on a busy machine need not have an answer, and no machine runs every ABI that a study asks for.
MEASURED = (DONE, UNANSWERED)
STUDIED = (DONE, UNANSWERED, INFRASTRUCTURE, NOTHING_RAN)

# Left out: arithmetic and drawing by libraries that are the same in every system. They take most of the time, and
# `make test` runs them too.
_SLOW = """compare curves effort_under_contention floats pairs recorded_curves report_charts report_new_charts
  report_of_any_rows report_page"""
PYTEST = " ".join(
    [".venv/bin/python -m pytest -q -n 2 --dist loadfile tests/tidy tests/unit"]
    + [f"--ignore tests/unit/test_{name}.py" for name in _SLOW.split()]
)


class Unusable(Exception):
    """A step failed without which the later ones mean nothing."""


class Visit:
    """What happened in one system."""

    def __init__(self, system: System) -> None:
        self.system, self.passed, self.complaints = system, 0, list[str]()

    def check(self, title: str, wrong: str | None, needed: bool = False) -> None:
        if wrong is None:
            self.passed += 1
            return
        self.complaints.append(f"{self.system.name}: {title}: {wrong}")
        watching.tell(f"FAILED {self.complaints[-1]}")
        if needed:
            raise Unusable

    def does(
        self, user: User, command: str, ends: Sequence[int] = (DONE,), says: str = "", *, needed: bool = False,
        folder: str = THERE,
    ) -> str:  # fmt: skip
        """Returns what was said, and shows all of it where it is not what it should be."""
        log = f"{self.passed + len(self.complaints):02}-{user.name}-{re.sub('[^a-z0-9]+', '-', command)[:40]}"
        status, said = self.system.run(user, folder, command, log)
        wrong = complaint(status, said, ends, says)
        if wrong is not None:
            watching.tell(said)
        self.check(f"{user.name}: {command}", wrong, needed)
        return said

    def clones(self, owner: User) -> None:
        """A fresh clone of what is committed here."""
        there = self.system.inside(THERE)
        words = ["git", "-c", "safe.directory=*", "clone", "-q", "--no-hardlinks", f"{CHECKOUT}", f"{there}"]
        subprocess.run(words, check=True)
        self.system.lend_packages(f"{THERE}/build/fetched")
        self.system.give(there, owner)
        self.system.give_downloads(owner)


def complaint(status: int, said: str, ends: Sequence[int], says: str) -> str | None:
    """What is wrong with how a command ended and with what it said."""
    if "Traceback (most recent call last)" in said:
        return "a traceback"
    if "None cannot be written" in said:
        return "a file without a name"
    if status not in ends:
        return f"status {status}, not {' or '.join(map(str, ends))}"
    return None if re.search(says, said) else f"it does not say {says!r}"


LONGEST_LINE = 200
INSTALL = "apt-get install -q --no-install-recommends"
WITHOUT_NETWORK = "unshare --net"
BUILDAH = "export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs"
"""Neither a container's own kernel resources nor overlays can be had everywhere."""
READERS = {"read_conda.py": ("recipe.yaml", "tollmeter"), "read_easybuild.py": ("Tollmeter.eb", "Tollmeter")}
"""By a program that reads a recipe with the library of its tool: the recipe, and what it prints of it."""
NO_GAP = "! ls build/*.gap 2>/dev/null"


def debian_12(visit: Visit) -> None:
    """Root needs nothing that the system does not have; others read root's checkout. The tests run on its Python."""
    debian_12_run(visit)
    visit.does(ROOT, "make set-up-tests", needed=True)
    _tests(visit, ROOT)


def debian_12_run(visit: Visit) -> None:
    """The same without the tests, whose set-up takes most of the time."""
    visit.clones(ROOT)
    visit.does(ROOT, "./toll run --budget 20s", MEASURED, "Page", needed=True)
    visit.does(ROOT, NO_GAP)
    visit.does(ROOT, '[ "$(.venv/bin/python --version)" = "$(/usr/bin/python3 --version)" ]')
    _studies(visit, ROOT)
    visit.does(ROOT, "./toll --set-up", needed=True)  # a library that a study brought made what was built stale
    _reads(visit, ORDINARY, r".*/ordinary/\.local/share/tollmeter")
    _reads(visit, NAMELESS, "/tmp/tollmeter-12345")


def debian_12_release(visit: Visit) -> None:
    """A release measures without a compiler, from its archive and from its wheel; PyPI would take its files."""
    folder, there = CHECKOUT / "build/release", visit.system.inside("/srv")
    subprocess.run([sys.executable, CHECKOUT / "packaging/release.py", folder, "x86_64"], check=True)
    shutil.copytree(folder, there / "release")
    (archive,) = folder.glob("toll-*.tar.xz")
    subprocess.run(["tar", "-xf", archive, "-C", there], check=True)
    unpacked = f"/srv/{archive.name.removesuffix('.tar.xz')}"
    run = "run kernel.enter_syscall --budget 10s"
    visit.does(ROOT, f"TOLL_INSTALL=no ./toll {run}", MEASURED, "system call takes", folder=unpacked)
    visit.does(ROOT, "! command -v cc && ! command -v gcc", folder=unpacked)
    visit.does(ROOT, "python3 -m venv venv && venv/bin/pip install -q release/*_x86_64.whl", needed=True, folder="/srv")
    visit.does(ROOT, f"{WITHOUT_NETWORK} venv/bin/toll {run}", MEASURED, "system call takes", folder="/srv")
    visit.does(ROOT, "python3 -m venv tools && tools/bin/pip install -q twine", folder="/srv")
    visit.does(
        ROOT, "tools/bin/twine check --strict release/*.whl release/tollmeter-*.tar.gz", says="PASSED", folder="/srv"
    )
    _recipes(visit)


def _recipes(visit: Visit) -> None:
    """Each is read by its own tool, where that is in Debian or on PyPI. None is built: what they depend on is in
    collections that are not. Spack is in neither, and Python reads its recipe."""
    visit.does(ROOT, "apt-get update -q", needed=True, folder="/srv")
    visit.does(ROOT, f"{INSTALL} nix-bin", needed=True, folder="/srv")
    visit.does(ROOT, "tools/bin/pip install -q easybuild py-rattler-build", needed=True, folder="/srv")
    recipes = "/srv/release/recipes"
    visit.does(ROOT, "nix-instantiate --parse default.nix", says="buildPythonApplication", folder=recipes)
    visit.does(ROOT, "python3 -m py_compile package.py", folder=recipes)
    for tool, (recipe, says) in READERS.items():
        shutil.copy2(CHECKOUT / "tests/roots" / tool, visit.system.inside("/srv"))
        visit.does(ROOT, f"../../tools/bin/python ../../{tool} {recipe}", says=says, folder=recipes)


def debian_12_package(visit: Visit) -> None:
    """The Debian package: its source builds without a network, twice to the same bytes, and lintian has nothing to say;
    without a network it is installed into a bare system and measures, and its page opens; an image is made of it."""
    source, bare = CHECKOUT / "build/debian", visit.system
    subprocess.run([sys.executable, CHECKOUT / "packaging/debian.py", source], check=True)
    visit.system = bare.beside("builder", ("build-essential", "lintian", "buildah"))
    visit.check("making its builder", None if visit.system.make() else f"see {visit.system.logs}", needed=True)
    shutil.copytree(source, visit.system.inside("/srv/first"))
    visit.does(ROOT, "apt-get update -q", needed=True, folder="/srv")
    visit.does(ROOT, "apt-get build-dep -q --no-install-recommends /srv/first/*.dsc", needed=True, folder="/srv")
    visit.does(ROOT, "cp -r first elsewhere", folder="/srv")
    build = f"dpkg-source -x *.dsc tree && cd tree && {WITHOUT_NETWORK} dpkg-buildpackage -us -uc"
    for folder in ("/srv/first", "/srv/elsewhere"):
        visit.does(ROOT, build, needed=True, folder=folder)
    visit.does(ROOT, "cmp first/tollmeter_*_*.deb elsewhere/tollmeter_*_*.deb", folder="/srv")
    visit.does(ROOT, "lintian --allow-root --fail-on error,warning first/*.changes", folder="/srv")
    (package,) = visit.system.inside("/srv/first").glob("tollmeter_*_*.deb")
    for there in (bare.inside("/srv"), source):
        shutil.copy2(package, there)
    _image(visit, bare)
    visit.system = bare
    visit.does(ROOT, "apt-get update -q", needed=True, folder="/srv")
    visit.does(ROOT, f"{INSTALL} --download-only /srv/{package.name}", needed=True, folder="/srv")
    visit.does(ROOT, f"{WITHOUT_NETWORK} {INSTALL} /srv/{package.name}", needed=True, folder="/srv")
    run = "toll run --budget 15s"
    said = visit.does(ROOT, f"{WITHOUT_NETWORK} su - ordinary -c '{run}'", MEASURED, "Page", folder="/srv")
    _opens(visit, re.findall(r"\S+/report\.html", said))
    visit.does(ROOT, "apt-get purge -q tollmeter && ! ls /usr/lib/tollmeter", folder="/srv")


def _opens(visit: Visit, printed: Sequence[str]) -> None:
    """A browser draws the charts of the page whose path was printed."""
    paths = [visit.system.inside(path) for path in printed]
    visit.check("the page", None if paths and paths[0].is_file() else f"there is no {printed}", needed=True)
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom"]
    words += ["--virtual-time-budget=20000", "--window-size=1200,4000"]
    page = subprocess.run(
        ["chromium", *words, f"file://{paths[0]}"], capture_output=True, text=True, check=False
    ).stdout
    drawn = page.count("<svg")
    visit.check("the page's charts", None if drawn else f"chromium draws none of {paths[0]}")


def _image(visit: Visit, bare: System) -> None:
    """Containerfile, in a builder, from the bare system in place of the registry's debian:12."""
    subprocess.run(["tar", "-C", bare.folder, "-cf", visit.system.inside("/srv/debian.tar"), "."], check=True)
    shutil.copy2(CHECKOUT / "Containerfile", visit.system.inside("/srv"))
    for command in (
        "mkdir -p build/debian && cp first/tollmeter_*_*.deb build/debian",
        "printf 'FROM scratch\nADD debian.tar /\n' | buildah build -q -t localhost/debian:12 -f - .",
        "buildah build -q --pull-never --network host -v /run/host:/run/host -t toll .",
    ):
        visit.does(ROOT, f"{BUILDAH}; {command}", needed=True, folder="/srv")
    measures = "buildah run $(buildah from --pull-never toll) -- toll run kernel.enter_syscall --budget 10s"
    visit.does(ROOT, f"{BUILDAH}; {measures}", MEASURED, "system call takes", folder="/srv")


def debian_13(visit: Visit) -> None:
    """Others use the checkout of a user who is not root, and the tests run on its Python."""
    ordinary_user(visit)
    _types_what_it_says(visit, "make set-up-tests", DONE)
    # Its binutils no longer know the floating-point format of the old ARM ABI.
    _tests(visit, ORDINARY, "-k 'not arm-fpa'")
    _studies(visit, ORDINARY)
    visit.does(ORDINARY, "./toll --set-up", needed=True)
    _reads(visit, NAMELESS, "/tmp/tollmeter-12345")
    visit.does(ORDINARY, "chmod -R g+w . && touch probes/kernel/loop.c")
    visit.does(COLLEAGUE, "./toll run kernel.loop --budget 5s", MEASURED, "built ")
    _has_its_own(visit, NAMELESS)


def ordinary_user(visit: Visit) -> None:
    """A user who is not root is told once what to type, in one line; root types it, and the user measures."""
    visit.clones(ORDINARY)
    visit.does(NAMELESS, "./toll --help", (INFRASTRUCTURE,), "is not set up yet")
    line = _types_what_it_says(visit, "./toll run", INFRASTRUCTURE)
    visit.check("the line is short", None if len(line) < LONGEST_LINE else f"{len(line)} characters")
    said = visit.does(ORDINARY, "./toll run --budget 20s", MEASURED, "Page", needed=True)
    visit.check("nothing more is to be installed", f"it says {said!r}" if "apt-get" in said else None)
    visit.does(ORDINARY, NO_GAP)


def _types_what_it_says(visit: Visit, command: str, ends: int) -> str:
    said = visit.does(ORDINARY, command, (ends,), needed=True)
    lines = re.findall(r"^.*apt-get .*$", said, re.MULTILINE)
    is_one = len(lines) == 1 and lines[0].startswith("    apt-get ")
    visit.check("the line to type", None if is_one else f"{lines}", needed=True)
    visit.does(ROOT, lines[0].strip(), needed=True)
    return lines[0].strip()


def _tests(visit: Visit, owner: User, chosen: str = "") -> None:
    visit.does(owner, '[ "$(.venv/bin/python --version)" = "$(/usr/bin/python3 --version)" ]')
    visit.does(owner, f"{PYTEST} {chosen}", says=r"\d+ passed")


def _studies(visit: Visit, owner: User) -> None:
    for suite in ("rtems-2005", "x32-2013"):
        visit.does(owner, f"./toll run {suite} --budget 10s", STUDIED, "Page")


def _reads(visit: Visit, user: User, runs: str) -> None:
    """What a user does who may not write to the checkout, and whose own runs are kept elsewhere."""
    visit.does(user, "./toll --help", says="Measures what it costs")
    visit.does(user, "./toll show LAST", says="Page")
    visit.does(user, "./toll run kernel.loop --budget 5s", MEASURED, f"runs are kept in {runs}")
    visit.does(user, "./toll list runs", says="kernel.loop")
    visit.does(user, "./toll show LAST --format json", says='"kernel.loop"')
    visit.does(user, "./toll report LAST")
    visit.does(user, "./toll run kernel.loop --budget 5s --out /etc/run", (INFRASTRUCTURE,), "/etc/run")


def _has_its_own(visit: Visit, user: User) -> None:
    """A checkout of this user's own, without .venv: pip is started too."""
    own = f"{THERE}-of-{user.name}"
    system, left_out = visit.system, shutil.ignore_patterns(".venv", "runs")
    shutil.copytree(system.inside(THERE), system.inside(own), symlinks=True, ignore=left_out)
    system.give(system.inside(own), user)
    visit.does(user, "./toll run kernel.loop --budget 5s", MEASURED, rf"show {own}/runs|Page +{own}|Next", folder=own)
    visit.does(user, "./toll list runs", says="kernel.loop", folder=own)
