"""The VM as a tool: a policy writes a program in several calls and sees the stack after every instruction.

``GRPOTrainer(environment_factory=Machine, reward_funcs=valued)`` of TRL makes an episode of each row of
:func:`row`. Nothing here imports TRL, so another loop can call the same three methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cadmus import Task, Verdict, isa, prefix_values, stacks, verify
from cadmus.config import LONGEST_PROGRAM
from cadmus.errors import InputError
from cadmus.evaluate.questions import QUESTIONS

_TASK = """\
A program is a sequence of one-character instructions for a machine with a stack. Each instruction takes \
its inputs off the stack and leaves its outputs on it, the top last. A program is true if it leaves at \
least one value and none of them is 0 or NAN. These are all instructions:

{table}

Continue the program below with the tool `write` and end it with `.`, so that it is true and solves its \
question: {solved}.
"""


def row(task: Task) -> dict[str, Any]:
    """Return a row of a trainer's dataset: the question as a message, and the arguments of a reset."""
    table = "\n".join(f"{each.symbol}  {each.effect}  {each.meaning}" for each in isa.INSTRUCTIONS)
    text = _TASK.format(table=table, solved=QUESTIONS[task.question].solved)
    return {**task._asdict(), "program": task.prompt, "prompt": [{"role": "user", "content": text}]}


class Step(NamedTuple):
    """An instruction that the policy wrote."""

    symbol: str
    stack: list[str]
    """The stack after it, the top last, each value as ``cadmus run`` prints it."""
    value: float
    """The probability that the best continuation solves the question, see :func:`cadmus.prefix_values`."""


class Machine:
    """An episode: a task whose program is continued until its end. ``steps`` has what was written.

    Args:
        dataset: the ``dataset`` that the tasks were sampled with, see :func:`cadmus.verify`.
    """

    def __init__(self, dataset: Mapping[str, Any] | None = None) -> None:
        self.dataset = dataset

    def reset(
        self, program: str, reference: str, question: str, split: str | None = None, **_: object
    ) -> str:
        """Start an episode and return its observation; the arguments are the columns of :func:`row`."""
        self.task = Task(program, reference, question, split)
        self.steps: list[Step] = []
        self.ended = False
        return f"\nProgram: {program}\nStack: {_shown(stacks(program)[-1])}"

    def write(self, instructions: str) -> str:
        """Append instructions to the program and execute them.

        Args:
            instructions: One or more instructions. The instruction `.` ends the program.

        Returns:
            The stack after each instruction, the top last.
        """
        if self.ended:
            raise InputError("the program has ended")
        if not isinstance(instructions, str):
            raise InputError(f"instructions: must be text, got {instructions!r}")
        body = instructions.removesuffix(isa.END)
        before = self.task.prompt + self._written()
        program = isa.check_prefix(before + body)
        if len(program) > LONGEST_PROGRAM:
            raise InputError(f"a program has at most {LONGEST_PROGRAM} instructions, got {len(program)}")
        self.ended = body != instructions
        values = prefix_values(self.task, self._written() + body, dataset=self.dataset).probability
        after = stacks(program)[len(before) :], values[len(self.steps) + 1 : -1].tolist()
        new = [Step(symbol, stack, value) for symbol, stack, value in zip(body, *after, strict=True)]
        self.steps += new
        seen = [f"{step.symbol}  {_shown(step.stack)}" for step in new]
        return "\n".join([*seen, f"ended: {self.verdict.reason}"] if self.ended else seen)

    @property
    def verdict(self) -> Verdict:
        """The grade of what was written so far, as ``cadmus evaluate`` gives it."""
        return verify(self.task, self._written(), ended=self.ended, dataset=self.dataset)

    def get_reward(self) -> float:
        """Return 1 if the program has ended and solves its question, else 0."""
        return float(self.verdict.solved)

    def _written(self) -> str:
        return "".join(step.symbol for step in self.steps)


def valued(environments: Sequence[Machine], **_: object) -> list[float]:
    """Return the process reward of each episode: the mean value after its tokens, the end included.

    It is 1 for a solved program, and for another the fraction of tokens before it was lost.
    """
    values = [[*(step.value for step in each.steps), each.get_reward()] for each in environments]
    return [sum(each) / len(each) for each in values]


def _shown(stack: list[str]) -> str:
    return " ".join(stack) or "empty"
