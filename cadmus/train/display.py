"""The progress of a training: a bar on a terminal, otherwise a line every few seconds."""

import sys
import time
from collections.abc import Callable

from tqdm import tqdm

LOG_SECONDS = 10.0
"""Time between two lines."""


class Display:
    """Shows the loss, the speed since the last line and the time left.

    Args:
        step: steps done.
        steps: steps in all.
        log: takes the lines.
        visible: False shows nothing.
    """

    def __init__(self, step: int, steps: int, log: Callable[[str], None], visible: bool) -> None:
        self.steps, self.log, self.visible = steps, log, visible
        self.bar = tqdm(
            total=steps,
            initial=step,
            unit="step",
            disable=not (visible and sys.stderr.isatty()),
            mininterval=2,
            smoothing=0.1,
        )
        self.since, self.start_step, self.tokens = time.perf_counter(), step, 0

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def show(self, step: int, loss: float, tokens: int) -> None:
        """Show a step, which trained on ``tokens``."""
        self.tokens += tokens
        elapsed = time.perf_counter() - self.since
        rate = f"{self.tokens / elapsed:,.0f} tokens/s"
        due = elapsed >= LOG_SECONDS or step == self.steps
        if not self.bar.disable:
            self.bar.set_postfix_str(f"loss {loss:.4f}, {rate}", refresh=False)
            self.bar.update()
        elif due and self.visible:
            minutes = elapsed / (step - self.start_step) * (self.steps - step) / 60
            self.log(f"step {step}/{self.steps}, loss {loss:.4f}, {rate}, {minutes:.1f} min left")
        if due:
            self.since, self.start_step, self.tokens = time.perf_counter(), step, 0
