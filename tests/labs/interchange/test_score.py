"""Scores of features, on a model with a known mechanism."""

import os

import pytest
import torch
from safetensors.torch import save_file

from cadmus.errors import InputError
from cadmus.labs.interchange.score import COLUMNS, Features, read_features, score
from tests.experiments.mechanism import WIDTH, X_AT_THE_END, Two, Y

VARIABLES = ["second", "top", "difference"]


def linear(directions) -> Features:
    return Features(lambda states: states @ directions.T, directions)


def scores_of(features, **options):
    table = score(Two(), {2: features}, VARIABLES, programs=80, **options)
    assert table.columns == ["layer", "variable", "programs", *COLUMNS]
    return {row["variable"]: row for row in table.iter_rows(named=True)}


def test_the_directions_of_the_mechanism_have_full_scores():
    found = scores_of(linear(torch.eye(WIDTH)[[X_AT_THE_END, Y]]), directions=1)
    for name in ("second", "top"):
        row = found[name]
        assert row["programs"] == 80
        assert row["readable"] == pytest.approx(1, abs=0.03)
        assert row["correlation"] == row["matched"] == pytest.approx(1)
        assert row["interchange"] == row["attributed"] == 1
        assert row["learned"] > 0.9
        assert row["random"] < 0.8
    # Two features for three variables: each is matched with one.
    assert found["difference"]["matched"] is None
    assert found["difference"]["correlation"] < 0.95
    # Both together are the difference, as no single one is.
    assert found["difference"]["readable"] == pytest.approx(1, abs=0.03)
    both = scores_of(linear(torch.eye(WIDTH)[[X_AT_THE_END, Y]]), directions=2)
    assert both["difference"]["interchange"] == 1 > found["difference"]["interchange"]


def test_attribution_finds_the_direction_that_is_used():
    # Both features are the top of the stack, but only one direction acts.
    directions = torch.eye(WIDTH)[[5, Y]]
    row = scores_of(Features(lambda states: states[:, [Y, Y]], directions), directions=1)["top"]
    assert row["correlation"] == pytest.approx(1)
    assert row["interchange"] == 0
    assert row["attributed"] == 1


def test_features_of_nothing_have_no_scores():
    found = scores_of(linear(torch.eye(WIDTH)[[0, 5]]))
    for row in found.values():
        assert row["readable"] < 0.1
        assert row["correlation"] == row["interchange"] == row["attributed"] == 0


def test_a_file_has_matrices_biases_and_decoders(tmp_path):
    path = tmp_path / "features.safetensors"
    encoder, decoder = torch.eye(3)[:2], torch.eye(3)[1:]
    save_file({"layer.1": encoder, "layer.0": encoder.clone(), "layer.1.bias": torch.ones(2)}, path)
    embedding, first = read_features(path).values()
    states = torch.tensor([[-3.0, 2.0, 1.0]])
    assert embedding.encode(states).tolist() == [[-3, 2]]
    assert first.encode(states).tolist() == [[0, 3]]
    assert first.directions.tolist() == encoder.tolist()
    save_file({"layer.1": encoder, "layer.1.decoder": decoder}, path)
    assert read_features(path)[1].directions.tolist() == decoder.tolist()


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "has no tensor; name one layer.N"),
        ({"encoder": torch.eye(3)}, "tensor 'encoder': names must be layer.N"),
        ({"layer.0.bias": torch.ones(3)}, "tensor 'layer.0.bias': names must be layer.N"),
        ({"layer.1": torch.eye(3) * torch.nan}, "tensor 'layer.1': must have finite floats"),
        ({"layer.1": torch.eye(3), "layer.1.decoder": -torch.ones(3, 3) / 0}, "'layer.1.decoder': must"),
        ({"layer.1": torch.eye(3, dtype=torch.complex64)}, "tensor 'layer.1': must have finite floats"),
        ({"layer.01": torch.eye(3)}, "names must be layer.N"),
        ({"layer.1": torch.ones(3)}, r"has shape \(3,\); must be \(features, width\)"),
        ({"layer.1": torch.ones(2, 3), "layer.1.bias": torch.ones(3)}, r"has shape \(3,\); .* be \(2,\)"),
    ],
)
def test_other_tensors_are_refused(tmp_path, tensors, message):
    path = tmp_path / "features.safetensors"
    save_file(tensors, path)
    with pytest.raises(InputError, match=message):
        read_features(path)


def test_features_of_another_model_are_refused():
    with pytest.raises(InputError, match=r"layer\.9: the model has 3 layers"):
        score(Two(), {9: linear(torch.eye(WIDTH))}, VARIABLES)
    with pytest.raises(InputError, match=f"layer.1: has 3 columns; the model has states of {WIDTH} numbers"):
        score(Two(), {1: linear(torch.eye(3))}, VARIABLES)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "features.txt").write_text("no")
    with pytest.raises(InputError, match=r"not readable .*; give a safetensors file"):
        read_features(tmp_path / "features.txt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: not a regular file"):
        read_features(tmp_path / "pipe")
