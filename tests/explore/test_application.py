import base64
import re

import numpy as np
import pytest
from starlette.testclient import TestClient

from cadmus import isa, run
from cadmus.config import LONGEST_PROGRAM, TEMPLATES
from cadmus.explore import application
from cadmus.explore.application import PAGE, explorer, read
from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import trained_config
from cadmus.programs import Programs
from tests.model.models import FLOAT_NOISE

PROGRAM = r"\3*;5f72:bE2<i15="


@pytest.fixture(scope="module")
def client(model):
    app = explorer(model, "laptop", None)
    with TestClient(app, base_url="http://127.0.0.1") as test_client:
        yield test_client


def array(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def test_inspect(client, model):
    # Spaces are ignored.
    found = client.get("/api/inspect", params={"program": " ".join(PROGRAM + "."), "calls": "false"}).json()
    assert (found["program"], found["ended"], found["true"]) == (PROGRAM, True, run(PROGRAM).true)
    assert [step["place"] for step in found["steps"]] == list(range(4, len(PROGRAM)))
    assert found["steps"][1]["stack"] == [15]
    assert found["steps"][4]["stack"] == [15, {"value": 7, "decoration": 2}]
    assert found["steps"][-1]["stack"] == found["outputs"]
    lens = array(found["lens"])
    assert lens.shape == (model.sizes.layers + 1, len(PROGRAM), isa.VOCABULARY_SIZE)
    np.testing.assert_allclose(np.log(lens[-1]), model.log_probabilities([PROGRAM])[0], atol=1e-3)
    ((_, shares),) = model.attention([PROGRAM])
    for layer in (1, model.sizes.layers):
        asked = client.get("/api/attention", params={"program": PROGRAM, "layer": layer}).json()
        np.testing.assert_allclose(array(asked), shares[layer - 1, 0], atol=FLOAT_NOISE)


def test_references(model):
    program = "62*4+54*4-="
    asked = {"program": program, "calls": "false"}
    app = explorer(model, "laptop", trained_config(DEFAULT_MODEL))
    with TestClient(app, base_url="http://127.0.0.1") as fresh:
        assert fresh.get("/api/inspect", params=asked).json()["read"] is None
        found = fresh.get("/api/references").json()
        rows = fresh.get("/api/inspect", params=asked).json()["read"]
    assert found["programs"] == pytest.approx(application.PROGRAMS, abs=len(TEMPLATES))
    of_row = array(found["bigrams"]).sum(1)
    assert of_row[isa.END_ID] == 0
    np.testing.assert_allclose(np.delete(of_row, isa.END_ID), 1, atol=1e-6)
    assert (found["layer"], found["supervised"]) == (model.sizes.layers - 2, True)
    assert 0.95 < found["accuracy"] <= 1
    assert 0.05 < found["majority"] < 0.5
    values = ["6", "2", "12", "4", "16", "5", "4", "20", "4", "16", "1"]
    assert [row["true"] for row in rows] == [row["label"] for row in rows] == values


def test_bigrams():
    found = application._bigrams(Programs.from_strings(["12", "1", "112"]))
    one, two = isa.TOKEN_ID["1"], isa.TOKEN_ID["2"]
    assert [found[one, token] for token in (one, two, isa.END_ID)] == [0.25, 0.5, 0.25]
    assert (found[two, isa.END_ID], found.sum()) == (1, 2)


def test_samples_and_completions(client):
    for template in TEMPLATES:
        program = client.get("/api/sample", params={"template": template}).json()["program"]
        assert run(program).true
    found = client.get("/api/complete", params={"program": "62* 4+ 54* 4-"}).json()
    assert found == {"program": "62*4+54*4-=."}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("inspect?program=34q&calls=false", "unknown symbol 'q' at position 3"),
        ("inspect", "the program is empty; type instructions"),
        ("inspect?calls=false&program=" + "1" * (LONGEST_PROGRAM + 1), f"at most {LONGEST_PROGRAM}"),
        ("attention?program=34&layer=0", "layer: must be 1 to 8, got '0'"),
        ("attention", "layer: must be 1 to 8, got ''"),
        ("complete?program=34.", "has its end . at position 3"),
        ("sample?template=equalitty", "no template 'equalitty'"),
    ],
)
def test_bad_requests(client, path, message):
    answer = client.get(f"/api/{path}")
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_only_pages_of_this_server_have_access(client):
    assert client.get("/", headers={"Host": "cadmus.example"}).status_code == 400
    for path in ("/", "/api/references"):
        assert client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get("/api/nothing").status_code == 404
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    for path in PAGE.iterdir():
        assert not re.search(r"https?://|@import", path.read_text(encoding="utf-8")), path


def test_the_longest_program_and_the_largest_stacks(client, monkeypatch):
    assert read("1" * LONGEST_PROGRAM + ".") == "1" * LONGEST_PROGRAM
    asked = {"program": "1" * LONGEST_PROGRAM, "calls": "true"}
    assert client.get("/api/inspect", params=asked).status_code == 200
    monkeypatch.setattr(application, "MAX_VALUES", 55)
    assert client.get("/api/inspect", params=asked | {"program": "1" * 10}).status_code == 200
    answer = client.get("/api/inspect", params=asked | {"program": "1" * 11})
    message = "the stacks have 66 values to show; at most 55; leave out the steps inside calls"
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)
