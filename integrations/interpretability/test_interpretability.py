"""The code on interpretability in docs/integrations.md; its logits and hidden states compared with ours."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from cadmus import Cadmus

DOCUMENT = (Path(__file__).parents[2] / "docs/integrations.md").read_text(encoding="utf-8")
PAGE = DOCUMENT.split("\n## Interpretability\n")[1].split("\n## ")[0]
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The variables of the page after its code."""
    directory = tmp_path_factory.mktemp("page")
    # nnsight reads the source of its blocks, so they have to be in a file.
    script = directory / "page.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        return runpy.run_path(str(script))


@pytest.fixture(scope="module")
def ours():
    return Cadmus.load()


def _state(ours, programs, layer):
    ((_, states),) = ours.hidden_states(programs)
    return states[layer]


def test_transformer_lens_has_our_logits_and_hidden_states(page, ours):
    programs = page["programs"][:100]
    np.testing.assert_allclose(page["lens_logits"][:, -1], ours.next_logits(programs), atol=TOLERANCE)
    resid = page["cache"]["blocks.3.hook_resid_post"]
    np.testing.assert_allclose(resid, _state(ours, programs, 4), atol=TOLERANCE)
    changed = abs(page["ablated"] - page["lens_logits"]).amax((0, 2)).numpy()
    assert changed[:4].max() < TOLERANCE
    assert changed[4:].min() > 0.1


def test_nnsight_has_our_logits_and_hidden_states(page, ours):
    programs = ["62*4+54*4-", "34+7"]
    logits = page["nnsight_logits"].detach().numpy()
    np.testing.assert_allclose(logits[:, -1], ours.next_logits(programs), atol=TOLERANCE)
    for row, program in enumerate(programs):
        found = page["state"].detach()[row, -len(program) :]
        np.testing.assert_allclose(found, _state(ours, [program], 4)[0], atol=TOLERANCE)
    changed = abs(page["changed"].detach().numpy()[0, -1] - logits[0, -1]).max()
    assert changed > 0.1
