"""The VM as a tool, alone and in TRL's trainer."""

import json

import pytest

from cadmus.errors import InputError
from cadmus.evaluate.questions import QUESTIONS
from integrations.conftest import asked

cadmus_machine = pytest.importorskip("cadmus_machine")


def machine(program="62*4+54*4-", reference="=", question="equality_comparator"):
    found = cadmus_machine.Machine()
    observation = found.reset(program=program, reference=reference, question=question, prompt=[])
    assert observation.startswith(f"\nProgram: {program}\nStack: ")
    return found


def test_an_episode_shows_the_stack_after_each_instruction():
    found = machine()
    assert found.write("=") == "=  1"
    assert found.get_reward() == 0  # Not ended.
    assert found.write(".") == "ended: solved"
    assert found.get_reward() == 1
    assert cadmus_machine.valued([found]) == [1]
    with pytest.raises(InputError, match="the program has ended"):
        found.write("1")
    found.reset(program="62*4+54*4-", reference="=", question="equality_comparator")
    assert found.write("0/+<.") == "0  16 16 0\n/  16 NAN\n+  NAN\n<  NAN\nended: false"
    assert [step.value for step in found.steps] == [0, 0, 0, 0]
    assert cadmus_machine.valued([found]) == [0]
    found.reset(program="u7b8b$", reference="t5+=", question="basic_sequences")
    found.write("t5")
    found.write("+>.")
    assert [step.value for step in found.steps] == [1, 1, 1, 0]
    assert cadmus_machine.valued([found]) == [0.6]
    assert found.get_reward() == 0


def test_a_definition_is_shown_in_the_calls_before_it():
    found = machine("2f5=6ft3+=4f9=", r"\2*1+;", "complete_algorithm")
    assert found.write(r"\2*1+;.").splitlines()[-2:] == [";  1 1 1", "ended: solved"]
    assert cadmus_machine.valued([found]) == [pytest.approx(found.steps[0].value, abs=1)]


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ("yes", "unknown symbol 'y' at position 11"),
        ("=.=", "has its end . at position 12"),
        ("1" * 250, "a program has at most 250 instructions, got 260"),
        (34, "instructions: must be text, got 34"),
        (None, "instructions: must be text, got None"),
    ],
)
def test_a_bad_call_is_one_line_and_changes_nothing(instructions, message):
    found = machine()
    with pytest.raises(InputError, match=message):
        found.write(instructions)
    assert not found.steps
    assert found.write("=.").endswith("ended: solved")


@pytest.mark.parametrize("question", QUESTIONS)
def test_references_are_worth_1_and_rewarded(question):
    for task in asked(question, 20):
        found = cadmus_machine.Machine()
        found.reset(**cadmus_machine.row(task))
        for symbol in task.reference + ".":
            found.write(symbol)
        assert found.get_reward() == 1
        assert cadmus_machine.valued([found]) == [1] or question == "complete_algorithm"


def test_grpo_plays_episodes(tmp_path, monkeypatch):
    """A tiny model whose generations are written here: half of a group calls the tool with the reference."""
    pytest.importorskip("trl")
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_chat_template

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    names = special + sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({name: place for place, name in enumerate(names)}, []))
    plain.pre_tokenizer, plain.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = qwen3_chat_template
    sizes = {"hidden_size": 16, "intermediate_size": 16, "head_dim": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(names), **sizes, **heads))
    found = asked("equality_comparator", 2, "train")

    def generate(input_ids, **_):
        replies = []
        for place, text in enumerate(tokenizer.batch_decode(input_ids)):
            (task,) = (task for task in found if f"Program: {task.prompt}\n" in text)
            call = {
                "name": "write",
                "arguments": {"instructions": f"{task.reference}." if place % 2 else "0"},
            }
            seen = "<tool_response>" in text
            reply = "It is done." if seen else f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
            replies.append(tokenizer(f"{reply}<|im_end|>")["input_ids"])
        longest = max(map(len, replies))
        padded = [reply + [tokenizer.pad_token_id] * (longest - len(reply)) for reply in replies]
        return torch.cat([input_ids, torch.tensor(padded)], 1)

    monkeypatch.setattr(model, "generate", generate)
    options = {"num_generations": 2, "per_device_train_batch_size": 4, "max_steps": 1, "logging_steps": 1}
    trainer = GRPOTrainer(
        model,
        cadmus_machine.valued,
        args=GRPOConfig(
            str(tmp_path), report_to="none", use_cpu=True, bf16=False, max_completion_length=400, **options
        ),
        train_dataset=Dataset.from_list([cadmus_machine.row(task) for task in found]),
        processing_class=tokenizer,
        environment_factory=cadmus_machine.Machine,
    )
    trainer.train()
    (logged,) = (entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["tools/call_frequency"] == 1
    assert logged["tools/failure_frequency"] == 0
    assert logged["rewards/Machine/mean"] == 0.5
    assert logged["rewards/valued/mean"] == 0.5
