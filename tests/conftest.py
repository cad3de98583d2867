"""How the tests are shared between processes (``make test``)."""

import pytest

FIRST = ("test_workflow.py", "test_train.py", "test_ablation.py", "test_bench.py", "test_dataset_report.py")
"""Files that take minutes; were one of them last, the other process would wait for it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(FIRST)))
