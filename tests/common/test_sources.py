"""Source files that a result depends on."""

from pathlib import Path

from cadmus.common import sources
from cadmus.common.sources import sources_of


def names(*modules):
    """Return the source files relative to the package."""
    package = Path(sources.__file__).parents[1]
    return {path.relative_to(package).as_posix() for path in sources_of(*modules)}


def test_a_shard_depends_on_the_vm_and_its_own_template():
    found = names("cadmus.dataset.writer", "cadmus.templates.less_greater")
    assert {"isa.py", "vm/compiled.py", "templates/draw.py", "templates/less_greater.py"} <= found
    assert "templates/equality.py" not in found
    assert "dataset/sampler.py" in found, "imports inside functions count"


def test_cli_and_config_are_not_tracked():
    found = names("cadmus.dataset.writer")
    assert not any(name.startswith("cli/") for name in found)
    assert not any(name.startswith("config/") for name in found)


def test_names_inside_modules_have_no_file():
    assert names("cadmus.isa.digest") == set()
    assert names("cadmus.isa") == {"isa.py"}


def test_data_files_beside_a_module_are_sources():
    assert "figures/cadmus.mplstyle" in names("cadmus.figures.comparison_grid")
    assert "figures/related_work.csv" in names("cadmus.figures.table1_related_work")
    assert "figures/related_work.csv" not in names("cadmus.figures.comparison_grid")
