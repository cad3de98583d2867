"""Build steps that pyproject.toml cannot declare: data files from the checkout's folders, the index page."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
DATA = (
    "config/**/*.yaml",
    "models/laptop/*",
    "workflow/schemas/config.schema.json",
)
"""Files of the checkout that commands read; a wheel has them in ``cadmus/data``."""


class BuildWithData(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source, target in self._data().items():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        copied = [] if self.editable_mode else self._data().values()
        return [*super().get_outputs(include_bytecode), *copied]

    def _data(self) -> dict[str, str]:
        paths = sorted(path.relative_to(ROOT) for pattern in DATA for path in ROOT.glob(pattern))
        return {str(path): str(Path(self.build_lib, "cadmus/data", path)) for path in paths}


def index_page() -> str:
    """Return the README for the package index, where links to files of the repository lead nowhere."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)", r"\1", text)


setup(
    cmdclass={"build_py": BuildWithData},
    long_description=index_page(),
    long_description_content_type="text/markdown",
)
