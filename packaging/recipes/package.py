# SPDX-License-Identifier: Apache-2.0
"""Spack: a folder tollmeter/ of a repository of packages."""

from spack.package import *


class Tollmeter(PythonPackage):
    """Measures what it costs when code crosses a boundary on a machine, and explains the cost."""

    pypi = "tollmeter/tollmeter-@VERSION@.tar.gz"
    license("Apache-2.0")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling", type="build")
    depends_on("capstone@5.0.3: +python", type=("build", "run"))
    depends_on("py-jinja2@3.1.2:", type=("build", "run"))
    depends_on("py-msgspec@0.21.0:", type=("build", "run"))
    depends_on("py-numpy@1.26.4:", type=("build", "run"))
    depends_on("py-pyelftools@0.30:", type=("build", "run"))
    depends_on("py-rich@13.8.0:", type=("build", "run"))
    depends_on("py-typer@0.28", type=("build", "run"))
    # The probes are compiled at the first run.
    depends_on("gmake", type="run")
