"""Install the pinned packages and this checkout into the environment of the Python that runs this.

uv takes a fifth of pip's time. It is a package like any other; where it cannot be had or fails, pip does the
same. Both have the indexes and folders of pip's configuration. Without a GPU they get PyTorch's build for
CPUs, which is a tenth as large, if its index answers at once: in a closed network, what the configured
indexes have is installed.
"""

import ast
import os
import shutil
import subprocess
import sys

PINNED = "requirements.txt"
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
PATIENCE = 3
"""Seconds for the index of CPU builds to answer."""
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OPTIONS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""Options of pip, and uv's variables for them."""
# uv separates indexes and hosts by spaces, folders by commas.
SEPARATORS = {"UV_FIND_LINKS": ","}


def uv_variables(settings: str) -> dict[str, str]:
    """Return uv's environment variables for what ``pip config list`` prints; those that are set stay."""
    found: dict[str, str] = {}
    for line in settings.splitlines():
        key, _, value = line.partition("=")
        variable = OPTIONS.get(key.rpartition(".")[2])
        # pip prefers its own variables to files.
        if variable and value and (variable not in found or key.startswith(":env:")):
            found[variable] = SEPARATORS.get(variable, " ").join(ast.literal_eval(value).split())
    # As pip does: the best version of all indexes. The index of pyproject.toml may not answer.
    defaults = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_NO_SOURCES": "1"}
    return defaults | found | dict(os.environ)


def wants_cpu_builds() -> bool:
    """Tell whether the machine lacks a GPU and the index of CPU builds answers."""
    if sys.platform != "linux" or shutil.which("nvidia-smi"):
        return False
    asked = f"import urllib.request; urllib.request.urlopen({CPU_BUILDS + '/torch/'!r})"
    try:
        # A process, as no timeout of a socket covers the search for its address.
        return succeeds((sys.executable, "-c", asked), timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return False


def succeeds(command: tuple[str, ...], **options: object) -> bool:
    """Run a command, whose errors are seen only if nothing else can do it."""
    return subprocess.run(command, stderr=subprocess.DEVNULL, **options).returncode == 0  # type: ignore[call-overload,no-any-return]


def with_uv(cpu_builds: bool) -> bool:
    """Install all with uv; return False if it cannot."""
    uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or shutil.which("uv")
    if uv is None and succeeds((*PIP, "install", "--only-binary", "uv", "--constraint", PINNED, "uv")):
        uv = shutil.which("uv", path=os.path.dirname(sys.executable))
    if uv is None:
        return False
    # A quiet pip does not list its settings.
    listed = (sys.executable, "-m", "pip", "config", "list")
    settings = subprocess.run(listed, capture_output=True, text=True).stdout
    install = (uv, "pip", "install", "--quiet", "--python", sys.executable)
    backend = ("--torch-backend", "cpu") if cpu_builds else ()
    variables = uv_variables(settings)
    return succeeds((*install, *backend, "--requirement", PINNED), env=variables) and succeeds(
        (*install, "--no-deps", "--config-setting", "editable_mode=compat", "--editable", "."), env=variables
    )


def main() -> None:
    """Install all, with uv or with pip."""
    cpu_builds = wants_cpu_builds()
    if with_uv(cpu_builds):
        return
    index = ("--extra-index-url", CPU_BUILDS) if cpu_builds else ()
    # Python compiles the modules that it imports; pip would compile all, on one core.
    subprocess.run((*PIP, "install", "--no-compile", *index, "--requirement", PINNED), check=True)
    # Without `compat`, a script in the folder above a clone named cadmus would import that folder.
    editable = ("--no-deps", "--config-settings", "editable_mode=compat", "--editable", ".")
    subprocess.run((*PIP, "install", *editable), check=True)


if __name__ == "__main__":
    main()
