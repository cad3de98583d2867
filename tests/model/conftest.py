"""An exported random model."""

import pytest

from cadmus.model.export import save_export
from tests.model.models import SIZES, random_model


@pytest.fixture(
    scope="module",
    params=[{"tied": False}, {"tied": True, "activation": "relu2"}],
    ids=["untied", "tied-relu2"],
)
def exported(request, tmp_path_factory):
    sizes = SIZES.model_copy(update=request.param)
    model = random_model(sizes)
    directory = tmp_path_factory.mktemp("exports") / "model"
    save_export(model, directory, {"steps": 7})
    return model, directory
