"""A process is killed with all that it started."""

import subprocess
import sys

import psutil

from dev.measure import kill_tree


def test_the_whole_tree_is_killed():
    # One process of the session, and one that leads its own.
    code = (
        "import subprocess, time\n"
        "subprocess.Popen(['sleep', '1000'])\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print(flush=True)\n"
        "time.sleep(1000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    process.stdout.close()
    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    kill_tree(process)
    assert process.returncode == -9
    assert all(not child.is_running() or child.status() == psutil.STATUS_ZOMBIE for child in children)
