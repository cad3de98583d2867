"""Execute the notebook of the documents: ``python -m tests.notebook`` writes its outputs anew."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from cadmus.common.files import replacing
from tests.checkout import ROOT

NOTEBOOK = ROOT / "docs/notebook.ipynb"
# Small products of matrices: a thread is faster than several that wait for each other where other work runs.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def executed(folder: Path) -> nbformat.NotebookNode:
    """The notebook after all its cells were executed in ``folder``, with a kernel of this Python.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook, record_timing=False, coalesce_streams=True, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env={**os.environ, **ENVIRONMENT})
    # With the version of Python, which says nothing about the outputs.
    notebook.metadata.pop("language_info", None)
    return notebook


if __name__ == "__main__":
    done = executed(ROOT)
    with replacing(NOTEBOOK) as temporary:
        nbformat.write(done, temporary)
