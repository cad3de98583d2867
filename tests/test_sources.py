"""Which source files a result depends on."""

from pathlib import Path

from cadmus.common import sources
from cadmus.common.sources import sources_of


def names(*modules):
    """Source files relative to the package."""
    package = Path(sources.__file__).parents[1]
    return {path.relative_to(package).as_posix() for path in sources_of(*modules)}


def test_a_shard_depends_on_the_machine_and_its_own_template():
    found = names("cadmus.dataset.writer", "cadmus.templates.less_greater")
    assert {"isa.py", "vm/compiled.py", "templates/draw.py", "templates/less_greater.py"} <= found
    assert "templates/equality.py" not in found
    assert "dataset/sampler.py" in found, "imports inside functions count"


def test_adapters_and_configuration_are_no_sources():
    found = names("cadmus.dataset.writer")
    assert not any(name.startswith("cli/") for name in found)
    assert "config.py" not in found


def test_names_inside_modules_are_no_files():
    assert names("cadmus.isa.digest") == set()
    assert names("cadmus.isa") == {"isa.py"}


def test_data_files_beside_a_module_are_sources():
    assert "figures/cadmus.mplstyle" in names("cadmus.figures.comparison_grid")
    assert "figures/related_work.csv" in names("cadmus.figures.table1_related_work")
    assert "figures/related_work.csv" not in names("cadmus.figures.comparison_grid")
