"""Large language models on the programs of the comparison grid, in normal and in alternate symbols."""

from cadmus.errors import CadmusError


class ModelOutputError(CadmusError):
    """A model's answer that cannot be graded as a program. Graders catch and count it; users never see it."""
