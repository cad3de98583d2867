"""Uploads to the Hugging Face Hub: a dataset, or a model with its snapshots as revisions.

:func:`plan` lists and checks the files, without a token or the network; :func:`push` uploads them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

# Which HTTP library raises it depends on the version of huggingface_hub.
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # isort: skip
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from cadmus.dataset import manifest
from cadmus.errors import InputError
from cadmus.model.export import load_export
from cadmus.store import check_digest
from cadmus.train.paths import find_snapshots, step_of

MAIN = "main"
_REFUSALS = {
    401: "the token is not valid; log in again with `hf auth login`",
    403: "the token may not write there; use a token with write access, or another name",
    404: "no such user or organization, or the token cannot see it; check the name",
}


class Plan(NamedTuple):
    """The files of an upload."""

    kind: Literal["model", "dataset"]
    name: str
    revisions: dict[str, dict[str, Path]]
    """Files by their paths in the repository, for each branch: ``main``, and of snapshots ``step1000``."""

    @property
    def url(self) -> str:
        return f"{HfApi().endpoint}/{'datasets/' if self.kind == 'dataset' else ''}{self.name}"


def plan(directory: Path, name: str, snapshots: Path | None = None) -> Plan:
    """Check a model export or a finished dataset, and list its files without hidden ones.

    Each of the ``snapshots`` that ``cadmus train --snapshots`` wrote to a directory becomes a revision.
    """
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise InputError(f"--to {name}: not a name on the Hub; use letters, digits, -, _ and .") from None
    if "/" not in name:
        raise InputError(f"--to {name}: names no user or organization; use USER/{name}")
    if (directory / manifest.NAME).exists():
        if snapshots is not None:
            raise InputError(f"--snapshots {snapshots}: {directory} is a dataset; only models have snapshots")
        for file in manifest.read_manifest(directory)["files"]:
            check_digest(directory / file["file"], file["sha256"], "dataset")
        return Plan("dataset", name, {MAIN: _files(directory)})
    models = {MAIN: directory}
    if snapshots is not None:
        models |= {f"step{step_of(path)}": path for path in find_snapshots(snapshots)}
    for path in models.values():
        load_export(path)
    return Plan("model", name, {revision: _files(path) for revision, path in models.items()})


def push(planned: Plan, private: bool = False, log: Callable[[str], None] = print) -> None:
    """Upload with the token of ``hf auth login`` or ``HF_TOKEN``; creates the repository if there is none.

    Other files of the repository stay. ``log`` gets the address of each revision once it is complete.
    """
    api = HfApi()
    with _one_line(planned.url):
        api.whoami()
        api.create_repo(planned.name, repo_type=planned.kind, private=private, exist_ok=True)
    for revision, files in planned.revisions.items():
        place = f"{planned.url}/tree/{revision}"
        with _one_line(place):
            if revision != MAIN:
                api.create_branch(planned.name, repo_type=planned.kind, branch=revision, exist_ok=True)
            api.create_commit(
                planned.name,
                [CommitOperationAdd(path, str(file)) for path, file in files.items()],
                commit_message="Upload by cadmus push",
                repo_type=planned.kind,
                revision=revision,
            )
        log(place)


def _files(directory: Path) -> dict[str, Path]:
    """Return the files but hidden ones, by their paths in the directory."""
    found = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*"))}
    shown = {name: path for name, path in found.items() if "/." not in f"/{name}"}
    for path in shown.values():
        if path.is_symlink():
            # It may lead to any file of this machine.
            raise InputError(f"{path}: is a link to {path.readlink()}; remove it, or copy the file here")
    return {name: path for name, path in shown.items() if path.is_file()}


@contextmanager
def _one_line(place: str) -> Iterator[None]:
    """Report errors of the Hub in one line; their own texts may quote the request."""
    try:
        yield
    except LocalTokenNotFoundError:
        raise InputError(f"{place}: no token; log in with `hf auth login`, or set HF_TOKEN") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        problem = _REFUSALS.get(status, f"the Hub answered with status {status}; try again later")
        raise InputError(f"{place}: {problem}") from None
    except (ConnectionError, HTTPError) as error:
        raise InputError(f"{place}: no connection ({type(error).__name__}); try again online") from None
