"""What the measuring commands share."""

import json
import sys

from tests.checkout import ROOT
from tests.measured import report


def test_results_have_no_paths_of_this_machine(tmp_path, capsys):
    report(
        {"error": f"no {sys.prefix}/bin/python3", "file": f"{ROOT}/config/quick.yaml"}, tmp_path / "out.json"
    )
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["error"].endswith("/bin/python3")
    assert not written["error"].startswith("no /")
    assert written["file"] == "config/quick.yaml"
    assert json.loads(capsys.readouterr().out) == written
