"""Test programs by hand."""

import numpy as np

from cadmus.programs import Programs, Samples


def samples_of(template: str, *programs: str, prompt_length: int | list[int]) -> Samples:
    lengths = np.broadcast_to(np.array(prompt_length), len(programs))
    templates = np.full(len(programs), template, object)
    return Samples(Programs.from_strings(programs), lengths, template=templates)
