"""Execute docs/notebook.ipynb; `make notebook` updates its outputs."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from cadmus.store import replacing
from dev.measure import PATIENCE, ROOT

NOTEBOOK = ROOT / "docs/notebook.ipynb"
# One thread is fastest for matrix products this small.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def executed(folder: Path, times: int = 1) -> nbformat.NotebookNode:
    """Return the notebook, executed in ``folder`` with this Python: all its cells some times in a row."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells *= times
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook,
        record_timing=False,
        coalesce_streams=True,
        resources=resources,
        startup_timeout=PATIENCE,
        iopub_timeout=PATIENCE,
    )
    client.execute(env={**os.environ, **ENVIRONMENT})
    # It has the Python version.
    notebook.metadata.pop("language_info", None)
    return notebook


if __name__ == "__main__":
    done = executed(ROOT)
    with replacing(NOTEBOOK) as temporary:
        nbformat.write(done, temporary)
