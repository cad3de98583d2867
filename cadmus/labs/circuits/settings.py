"""The settings of the lab circuits."""

from typing import Annotated

from pydantic import AfterValidator, Field

from cadmus.config.evaluation import Local, Settings
from cadmus.config.fields import ProgramCount, check_distinct


class Circuit(Settings):
    """Circuits: which edges between the parts of a model carry a variable of the VM."""

    variables: Annotated[list[Local], Field(min_length=1), AfterValidator(check_distinct)] = [
        "first",
        "call",
        "aggregate",
    ]
    """variables, each of another question"""
    programs: ProgramCount = 50
    """minimal pairs of programs for each variable"""


EXPERIMENTS = {"circuit": Circuit}
SCORES = {".csv": "score", ".parquet": "score"}
