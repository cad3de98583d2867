"""Random streams, progress bars and the source files that a result depends on."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from cadmus import tools
from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.tools import epoch_seed, generator, progress, seed_of, sources_of


def test_seeds_have_their_golden_values():
    assert seed_of(1, "equality", "train", 0) == 0x61F5E9307AD833B2B51F506B37B2DEA8
    assert epoch_seed(seed_of(1, "train", 1), 0) == 0xB1EE321CDCFC19D5


@pytest.mark.parametrize(
    ("parts", "entropy"), [(("grid",), [7, *b"grid"]), ((3,), [7, 3]), (("a", 2**40), [7, 97, 2**40])]
)
def test_a_generator_is_seeded_with_its_parts(parts, entropy):
    expected = np.random.default_rng(entropy).random(4)
    assert generator(7, *parts).random(4).tolist() == expected.tolist()


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("place", "delay", "shown"), [(Screen, 0, True), (Screen, 60, False), (io.StringIO, 0, False)]
)
def test_a_bar_appears_on_a_terminal_after_the_delay(monkeypatch, place, delay, shown):
    monkeypatch.setattr(sys, "stderr", place())
    monkeypatch.setattr(tools, "DELAY", delay)
    assert list(progress("letters", "abc")) == ["a", "b", "c"]
    sample(Dataset(), 1, "equality", "train", 0, 5)
    written = sys.stderr.getvalue()
    assert ("letters: 100%" in written) == ("sample equality: 100%" in written) == shown
    assert shown or not written


def names(*modules):
    """Return the source files relative to the package."""
    package = Path(tools.__file__).parent
    return {path.relative_to(package).as_posix() for path in sources_of(*modules)}


def test_a_shard_depends_on_the_vm_and_its_own_template():
    found = names("cadmus.dataset.shards", "cadmus.templates.less_greater")
    assert {"isa.py", "vm/compiled.py", "templates/draw.py", "templates/less_greater.py"} <= found
    assert "templates/equality.py" not in found
    assert "dataset/sampler.py" in found, "imports inside functions count"


def test_cli_and_config_are_not_tracked():
    found = names("cadmus.dataset.shards")
    assert not any(name.startswith(("cli/", "config/")) for name in found)


def test_names_inside_modules_have_no_file():
    assert names("cadmus.isa.digest") == set()
    assert names("cadmus.isa") == {"isa.py"}


def test_data_files_beside_a_module_are_sources():
    assert "figures/cadmus.mplstyle" in names("cadmus.figures.comparison_grid")
    assert "figures/related_work.csv" in names("cadmus.figures.table1_related_work")
    assert "figures/related_work.csv" not in names("cadmus.figures.comparison_grid")
