"""`cadmus push`, with a Hub of this machine."""

import json
import re
import shutil
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled

from cadmus import publish
from cadmus.cli.main import cadmus
from cadmus.config import load_config
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.shards import plan, write_shard
from cadmus.errors import InputError
from cadmus.model.export import save_export
from cadmus.model.shipped import DEFAULT_MODEL
from cadmus.train.paths import step_path
from tests.checkout import ROOT
from tests.model.models import SIZES, random_model

TOKEN = "hf_" + "secret" * 6


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory with a model, two snapshots and a dataset."""
    directory = tmp_path_factory.mktemp("run")
    model = random_model()
    save_export(model, SIZES, directory / "model", {})
    (directory / "model/.cache").mkdir()
    (directory / "model/.cache/token").write_text(TOKEN)
    for step in (4, 1000):
        save_export(model, SIZES, step_path(directory / "snapshots", step), {})
    config = load_config(ROOT / "tests/tiny.yaml")
    for shard in plan(config):
        write_shard(config, directory / "dataset", shard.template, shard.split, shard.number)
    write_manifest(config, directory / "dataset")
    return directory


class Hub:
    """A Hub that keeps in memory what it is sent."""

    endpoint = "https://hub.example"

    def __init__(self) -> None:
        self.kind = ""
        self.private = False
        self.commits: dict[str, dict[str, Path]] = defaultdict(dict)
        self.error: Exception | None = None

    def whoami(self) -> None:
        if self.error:
            raise self.error

    def create_repo(self, name, *, repo_type, private, exist_ok) -> None:
        assert exist_ok
        self.kind, self.private = repo_type, private
        self.commits["main"] = {}

    def create_branch(self, name, *, repo_type, branch, exist_ok) -> None:
        assert exist_ok
        assert repo_type == self.kind
        self.commits[branch] = dict(self.commits["main"])

    def create_commit(self, name, operations, *, commit_message, repo_type, revision) -> None:
        assert commit_message
        assert repo_type == self.kind
        found = {operation.path_in_repo: Path(operation.path_or_fileobj) for operation in operations}
        self.commits[revision] |= found


@pytest.fixture
def hub(monkeypatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(publish, "HfApi", lambda: made)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return made


def invoke(*arguments: object) -> SimpleNamespace:
    done = CliRunner().invoke(cadmus, ["push", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, InputError):
        raise done.exception
    assert TOKEN not in done.output + str(done.exception)
    return SimpleNamespace(output=done.output, error=str(done.exception or ""))


def test_a_dry_run_lists_the_files_and_sends_nothing(hub, place):
    output = invoke(place / "model", "--to", "me/it", "--snapshots", place / "snapshots").output
    lines = [line.split() for line in output.splitlines()]
    files = sorted(path for path in (place / "model").iterdir() if path.is_file())
    for revision in ("main", "step4", "step1000"):
        rows = {name: size for name, where, size in (x for x in lines if len(x) == 3) if where == revision}
        assert rows == {path.name: f"{path.stat().st_size:,}" for path in files}
    assert "18 files" in output
    assert "would go to the model https://hub.example/me/it\nNothing was uploaded" in output
    assert not hub.commits


def test_a_model_goes_to_main_and_its_snapshots_to_revisions(hub, place):
    output = invoke(place / "model", "--to", "me/it", "--snapshots", place / "snapshots", "--yes").output
    assert (hub.kind, hub.private) == ("model", False)
    assert list(hub.commits) == ["main", "step4", "step1000"]
    assert hub.commits["main"]["model.safetensors"] == place / "model/model.safetensors"
    assert hub.commits["step4"]["meta.json"] == place / "snapshots/step-00000004/meta.json"
    assert not any(".cache" in path for files in hub.commits.values() for path in files)
    assert output.splitlines() == [f"https://hub.example/me/it/tree/{name}" for name in hub.commits]


def test_a_dataset_goes_to_main(hub, place):
    directory = place / "dataset"
    assert "datasets/me/it" in invoke(directory, "--to", "me/it").output
    invoke(directory, "--to", "me/it", "--private", "--yes")
    assert (hub.kind, hub.private) == ("dataset", True)
    (files,) = hub.commits.values()
    listed = {file["file"] for file in json.loads((directory / "manifest.json").read_text())["files"]}
    assert set(files) == {"manifest.json", *listed}
    shard = sorted(listed)[0]
    content = (directory / shard).read_bytes()
    (directory / shard).unlink()
    assert f"{shard}: missing" in invoke(directory, "--to", "me/it").error
    (directory / shard).write_bytes(content)


def test_damaged_files_are_not_uploaded(hub, place, tmp_path):
    copy = shutil.copytree(place, tmp_path / "copy")
    weights = copy / "model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    shard = next(copy.glob("dataset/test/*.parquet"))
    shard.write_bytes(shard.read_bytes() + b"x")
    assert f"{weights}: not readable" in invoke(copy / "model", "--to", "me/it").error
    assert f"{shard}: changed since the manifest" in invoke(copy / "dataset", "--to", "me/it").error


@pytest.mark.parametrize("link", ["model/README.md", "model/more", "dataset/notes.txt"])
def test_links_are_not_uploaded(hub, place, tmp_path, link):
    copy = shutil.copytree(place, tmp_path / "copy")
    (copy / link).symlink_to("/etc")
    error = invoke(copy / Path(link).parts[0], "--to", "me/it", "--yes").error
    assert error == f"{copy / link}: is a link to /etc; remove it, or copy the file here"
    assert not hub.commits


def test_other_files_beside_snapshots_stay(hub, place, tmp_path):
    snapshots = shutil.copytree(place / "snapshots", tmp_path / "snapshots")
    (snapshots / "step-old").mkdir()
    output = invoke(place / "model", "--to", "me/it", "--snapshots", snapshots).output
    assert "step1000" in output
    assert "old" not in output


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
    error = invoke(*arguments).error
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LocalTokenNotFoundError("Token is required"), "no token; log in with `hf auth login`"),
        (OfflineModeIsEnabled(f"authorization: Bearer {TOKEN}"), "no connection (OfflineModeIsEnabled)"),
    ],
)
def test_without_a_token_or_a_network_is_one_line(hub, place, error, message):
    hub.error = error
    shown = invoke(place / "model", "--to", "me/it", "--yes").error
    assert shown.startswith("https://hub.example/me/it: ")
    assert message in shown


class _Refusing(BaseHTTPRequestHandler):
    """Knows the user but no repository; refuses to create one with the status in its name."""

    def do_GET(self) -> None:
        known = self.path.startswith("/api/whoami")
        self.answer(200 if known else 404, {"name": "me", "type": "user"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(int(re.search(r"status-(\d+)", body)[1]), {"error": self.headers["authorization"]})

    def answer(self, status: int, content: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "the token is not valid"),
        (403, "the token may not write there"),
        (404, "no such user or organization"),
        (418, "the Hub answered with status 418"),
    ],
)
def test_a_refusal_of_the_hub_is_one_line_without_the_token(monkeypatch, status, message):
    server = ThreadingHTTPServer(("localhost", 0), _Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://localhost:{server.server_port}"
    api = publish.HfApi
    monkeypatch.setattr(publish, "HfApi", lambda: api(endpoint=address, token=TOKEN))
    try:
        error = invoke(DEFAULT_MODEL, "--to", f"me/status-{status}", "--yes").error
    finally:
        server.shutdown()
        server.server_close()
    assert error.startswith(f"{address}/me/status-{status}: {message}")
    assert "\n" not in error
