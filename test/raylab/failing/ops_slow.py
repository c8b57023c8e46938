"""An application's module that never finishes its import."""

import socket

from ray import serve

listener = socket.create_server(("127.0.0.1", 0))
catalog = socket.create_connection(listener.getsockname())
RULES = catalog.recv(1024)  # nobody answers


@serve.deployment
class Catalog:
    def __call__(self, request):
        return RULES


app = Catalog.bind()
