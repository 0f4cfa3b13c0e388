"""Which warnings end a test."""

from __future__ import annotations

import gc
import socket
import ssl
import struct
import threading

import pytest


def test_a_tls_socket_that_its_peer_resets_is_not_blamed_on_a_test() -> None:
    """Seen once: an API server was ending, and the collector found the socket in a later test, which failed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset() -> None:
            connection, _ = server.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        thread = threading.Thread(target=reset)
        thread.start()
        client = socket.create_connection(server.getsockname())
        thread.join()
        with pytest.raises(ConnectionResetError):
            ssl.create_default_context().wrap_socket(client, server_hostname="localhost")
    gc.collect()
