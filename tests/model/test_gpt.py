"""The decoder."""

import pytest
import torch

from cadmus import config
from cadmus.model.gpt import GPT, IMPLEMENTATIONS, attend_to_previous
from tests.model.models import FLOAT_NOISE, pack, random_model, unpacked_logits


def test_packed_programs_have_the_logits_of_unpacked_ones():
    model = random_model()
    programs = ["34+7=", "941-*55*2+=", "12+0>"]
    with torch.inference_mode():
        packed = model(*pack(programs))[0]
        start = 0
        for program in programs:
            separate = unpacked_logits(model, program)
            assert separate.std() > 0.5
            found = packed[start : start + len(program)]
            torch.testing.assert_close(found, separate, atol=FLOAT_NOISE, rtol=0)
            start += len(program)


def test_previous_token_heads_attend_to_the_token_of_their_distance():
    torch.manual_seed(0)
    model = GPT(config.Model(layers=2, width=128, heads=4, mlp=64))
    attend_to_previous(model, 2)
    tokens, positions = torch.randint(0, 65, (3, 60)), torch.arange(60).expand(3, -1)
    with torch.inference_mode():
        first, second = model.attention(tokens, positions, model.visible(torch.zeros_like(tokens)))
    for head in range(2):
        assert first[:, head].diagonal(-1 - head, 1, 2)[:, 5:].min() > 0.8
    assert first[:, 2:].diagonal(-1, 2, 3)[..., 20:].max() < 0.2, "the other heads start as before"
    assert second.diagonal(-1, 2, 3)[..., 20:].max() < 0.2, "and so do the other blocks"


def test_attention_implementations_are_equal():
    rows = [pack(["34+7=", "941-*55*2+=", "12+0>"]), pack(["u", "8Bt-Z?Ex+'", "9f;*@S", "55=!"])]
    tokens, positions, segments = (torch.cat(parts) for parts in zip(*rows, strict=True))
    found = []
    for attend in IMPLEMENTATIONS.values():
        model = random_model()
        model.attend = attend
        logits = model(tokens, positions, segments)[segments >= 0]
        logits.square().mean().backward()
        found.append([logits, *(p.grad for p in model.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=FLOAT_NOISE, rtol=1e-4)


# torch.compile causes warnings of torch while it traces.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("attend", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS)
def test_all_blocks_and_row_counts_share_one_compiled_graph(attend):
    torch._dynamo.reset()
    # It takes seconds, which tests in other processes need not pay.
    from torch._dynamo.utils import counters

    counters.clear()
    model, compiled = random_model(), random_model()
    model.attend = compiled.attend = attend
    compiled.compile_blocks("aot_eager")
    row = pack(["34+7=", "941-*55*2+=", "12+0>"])
    for count in (11, 3, 5, 13, 7):
        rows = [part.expand(count, -1) for part in row]
        logits = compiled(*rows)
        torch.testing.assert_close(logits, model(*rows), atol=FLOAT_NOISE, rtol=1e-4)
        logits.sum().backward()
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def test_initial_residual_variance_is_independent_of_depth():
    torch.manual_seed(0)
    deviations = []
    for layers in (2, 16):
        model = GPT(config.Model(layers=layers, width=64, heads=4, mlp=256))
        tokens = torch.randint(65, (8, 32))
        positions = torch.arange(32).expand(8, -1)
        visible = torch.ones(8, 32, 32, dtype=torch.bool).tril()
        with torch.inference_mode():
            first, *_, last = model.residual_stream(tokens, positions, visible)
        deviations.append((last - first).std().item())
    assert deviations[0] == pytest.approx(deviations[1], rel=0.2)
