"""Fixtures of several tests of training."""

import pytest
import torch

from cadmus.train.ranks import RUN_ID, RUN_PREFIX


@pytest.fixture
def two_gpus(monkeypatch) -> list[int]:
    """A machine that seems to have two GPUs; returns the devices that are made current."""
    current: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(RUN_ID, f"{RUN_PREFIX}test")
    return current
