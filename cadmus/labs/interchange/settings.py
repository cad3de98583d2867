"""The settings of the lab interchange."""

from typing import Annotated

from pydantic import AfterValidator

from cadmus.config.evaluation import Settings, Variable
from cadmus.config.fields import Positive, ProgramCount, check_distinct


class Interchange(Settings):
    """Interchange interventions: which variables of the VM a model uses."""

    variables: Annotated[list[Variable], AfterValidator(check_distinct)] = []
    """variables whose values are exchanged; all when empty"""
    programs: ProgramCount = 500
    """pairs of test programs for each variable, and as many others to learn the subspace"""
    directions: Positive = 8
    """size of the learned and of the random subspace"""


EXPERIMENTS = {"interchange": Interchange}
SCORES = {".safetensors": "score"}
