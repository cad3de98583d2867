"""The stack after every token."""

from cadmus import sample, stacks
from cadmus.config import TEMPLATES
from cadmus.vm.reference import run, show
from tests.model.models import random_programs


def test_a_stack_is_what_the_program_up_to_there_leaves():
    programs = [program for template in TEMPLATES for program in sample(template, 20, seed=3)]
    for program in ["", *programs, *random_programs(200, 1, 20).to_strings()]:
        ends = range(1, len(program) + 1)
        assert stacks(program) == [[*map(show, run(program[:end]).outputs)] for end in ends], program
