"""Ranks of one machine meet on its loopback interface; by default PyTorch listens on all interfaces."""

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

HOST = "127.0.0.1"


def store() -> "TCPStore":
    """Return a store that only this machine can reach.

    While it lives, PyTorch uses its server for every multi-tenant store on its port in this process.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        # The store owns the file descriptor.
        return TCPStore(
            HOST,
            port,
            is_master=True,
            wait_for_workers=False,
            multi_tenant=True,
            master_listen_fd=listener.detach(),
        )


def use_interface() -> None:
    """Let collectives of this process and its children use it, unless the user chose an interface."""
    name = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    if name is not None:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, name)
