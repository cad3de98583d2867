"""`cadmus push`, with a Hub of this machine."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

from cadmus.cli.main import cadmus
from cadmus.errors import InputError
from cadmus.model.export import save_export
from cadmus.pages import hub as uploads
from cadmus.train.paths import step_path
from tests.model.models import random_model

TOKEN = "hf_" + "secret" * 6


@pytest.fixture(scope="module")
def place(tmp_path_factory, ruled) -> Path:
    """A directory with a model, two snapshots and a dataset."""
    directory = tmp_path_factory.mktemp("run")
    model = random_model()
    save_export(model, directory / "model", {})
    (directory / "model/.cache").mkdir()
    (directory / "model/.cache/token").write_text(TOKEN)
    for step in (4, 1000):
        save_export(model, step_path(directory / "snapshots", step), {})
    # Not a snapshot, so it is left out.
    (directory / "snapshots/step-old").mkdir()
    shutil.copytree(ruled, directory / "dataset")
    return directory


class Hub:
    """A Hub that keeps in memory what it is sent."""

    endpoint = "https://hub.example"

    def __init__(self) -> None:
        self.kind, self.private, self.error = "", False, None
        self.commits: dict[str, dict[str, Path]] = defaultdict(dict)

    def whoami(self) -> None:
        if self.error:
            raise self.error

    def create_repo(self, name, *, repo_type, private, exist_ok) -> None:
        assert exist_ok
        self.kind, self.private = repo_type, private
        self.commits["main"] = {}

    def create_branch(self, name, *, repo_type, branch, exist_ok) -> None:
        assert (repo_type, exist_ok) == (self.kind, True)
        self.commits[branch] = dict(self.commits["main"])

    def create_commit(self, name, operations, *, commit_message, repo_type, revision) -> None:
        assert repo_type == self.kind
        found = {operation.path_in_repo: Path(operation.path_or_fileobj) for operation in operations}
        self.commits[revision] |= found


@pytest.fixture
def hub(monkeypatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(uploads, "HfApi", lambda: made)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return made


def push(*arguments: object) -> str:
    """Return what ``cadmus push`` prints."""
    output = CliRunner().invoke(cadmus, ["push", *map(str, arguments)], catch_exceptions=False).output
    assert TOKEN not in output
    return output


def refused(*arguments: object) -> str:
    """Return the one line with which ``cadmus push`` refuses."""
    with pytest.raises(InputError) as caught:
        push(*arguments)
    message = str(caught.value)
    assert TOKEN not in message
    assert "\n" not in message
    return message


def test_a_dry_run_lists_the_files_and_sends_nothing(hub, place):
    output = push(place / "model", "--to", "me/it", "--snapshots", place / "snapshots")
    lines = [line.split() for line in output.splitlines()]
    files = sorted(path for path in (place / "model").iterdir() if path.is_file())
    for revision in ("main", "step4", "step1000"):
        rows = {name: size for name, where, size in (x for x in lines if len(x) == 3) if where == revision}
        assert rows == {path.name: f"{path.stat().st_size:,}" for path in files}
    assert "18 files" in output
    assert "would go to the model https://hub.example/me/it\nNothing was uploaded" in output
    assert not hub.commits


def test_a_model_goes_to_main_and_its_snapshots_to_revisions(hub, place):
    output = push(place / "model", "--to", "me/it", "--snapshots", place / "snapshots", "--yes")
    assert (hub.kind, hub.private) == ("model", False)
    assert list(hub.commits) == ["main", "step4", "step1000"]
    assert hub.commits["main"]["model.safetensors"] == place / "model/model.safetensors"
    assert hub.commits["step4"]["meta.json"] == place / "snapshots/step-00000004/meta.json"
    assert not any(".cache" in path for files in hub.commits.values() for path in files)
    assert output.splitlines() == [f"https://hub.example/me/it/tree/{name}" for name in hub.commits]


def test_a_dataset_goes_to_main(hub, place):
    assert "datasets/me/it" in push(place / "dataset", "--to", "me/it")
    push(place / "dataset", "--to", "me/it", "--private", "--yes")
    assert (hub.kind, hub.private) == ("dataset", True)
    (files,) = hub.commits.values()
    listed = json.loads((place / "dataset/manifest.json").read_text())["files"]
    assert {"manifest.json"} | {file["file"] for file in listed} <= set(files)


def test_changed_files_are_not_uploaded(hub, place, tmp_path):
    copy = shutil.copytree(place, tmp_path / "copy")
    for path in (copy / "model/model.safetensors", next(copy.glob("dataset/test/*.parquet"))):
        path.write_bytes(path.read_bytes() + b"x")
        assert str(path) in refused(copy / path.relative_to(copy).parts[0], "--to", "me/it")


@pytest.mark.parametrize("link", ["model/README.md", "model/more", "dataset/notes.txt"])
def test_links_are_not_uploaded(hub, place, tmp_path, link):
    copy = shutil.copytree(place, tmp_path / "copy")
    (copy / link).symlink_to("/etc")
    error = refused(copy / Path(link).parts[0], "--to", "me/it", "--yes")
    assert error == f"{copy / link}: is a link to /etc; remove it, or copy the file here"
    assert not hub.commits


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dataset", "--to", "me/it", "--snapshots", "snapshots"], "is a dataset; only models have"),
        (["model", "--to", "me/it", "--snapshots", "dataset"], "no snapshots; give the directory"),
        (["snapshots", "--to", "me/it"], "is not a model export"),
        (["model", "--to", "it"], "--to it: names no user or organization; use USER/it"),
        (["model", "--to", "me/it/too"], "not a name on the Hub"),
        (["model", "--to", "me/?"], "not a name on the Hub"),
    ],
)
def test_bad_input_is_one_line(hub, place, monkeypatch, arguments, message):
    monkeypatch.chdir(place)
    assert message in refused(*arguments)


def answer(status: int) -> HfHubHTTPError:
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    return HfHubHTTPError(f"authorization: Bearer {TOKEN}", response=response)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LocalTokenNotFoundError("Token is required"), "no token; log in with `hf auth login`"),
        (OfflineModeIsEnabled(f"authorization: Bearer {TOKEN}"), "no connection (OfflineModeIsEnabled)"),
        (answer(401), "the token is not valid"),
        (answer(403), "the token may not write there"),
        (answer(404), "no such user or organization"),
        (answer(418), "the Hub answered with status 418"),
    ],
)
def test_errors_of_the_hub_are_one_line_without_the_token(hub, place, error, message):
    hub.error = error
    shown = refused(place / "model", "--to", "me/it", "--yes")
    assert shown.startswith(f"https://hub.example/me/it: {message}")
