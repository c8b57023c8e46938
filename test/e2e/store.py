"""An S3 server that pods can reach."""

import pathlib
import selectors
import shlex
import socket
import subprocess
import threading

from lab import wait

TEST_MODULE = pathlib.Path(__file__).resolve().parent.parent
BUCKET = "ray-historyserver"


class Store:
    """versitygw, which keeps objects as files: `objects` is the bucket's folder. A context manager.

    The server listens on 127.0.0.1 alone; a forwarder on `host` lets pods in.
    """

    def __init__(self, folder, host):
        self.folder, self.host = pathlib.Path(folder), host
        self.objects = self.folder / "data" / BUCKET

    def __enter__(self):
        self.folder.mkdir(parents=True)
        binary = self.folder / "objectstore"
        subprocess.run(["go", "build", "-o", binary, "./servers/objectstore"], cwd=TEST_MODULE, check=True)
        said = self.folder / "address"
        with open(said, "wb") as out:
            self.process = subprocess.Popen([binary, "-kind", "versitygw", "-dir", self.folder], stdout=out)
        # The server is built from its module when it is needed for the first time.
        wait(lambda: said.read_text().endswith("\n") or self.process.poll() is not None, "the S3 server")
        if self.process.poll() is not None:
            raise RuntimeError("the S3 server did not start")
        address = dict(word.split("=", 1) for word in shlex.split(said.read_text()))
        self.forwarder = Forwarder(self.host, int(address["URL"].rsplit(":", 1)[1]))
        self.environment = {
            "S3_ENDPOINT": f"http://{self.host}:{self.forwarder.port}",
            "AWS_S3ID": address["ACCESS_KEY"],
            "AWS_S3SECRET": address["SECRET_KEY"],
            "S3FORCE_PATH_STYLE": "true",
            "S3DISABLE_SSL": "true",
            "S3_BUCKET": BUCKET,
            "RAYHISTORY_STORAGE_CREATE_BUCKET": "true",
            "S3_REGION": "us-east-1",
        }
        return self

    def __exit__(self, *_):
        self.forwarder.close()
        self.process.terminate()
        self.process.wait(30)


class Forwarder:
    """Passes TCP connections to host:port on to 127.0.0.1."""

    def __init__(self, host, target):
        self.target = target
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        # Shut down first: closing alone does not wake a thread in accept.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while ready.get_map():
                for key, _ in ready.select():
                    try:
                        data = key.fileobj.recv(1 << 16)
                        key.data.sendall(data)
                    except OSError:
                        return
                    if not data:
                        ready.unregister(key.fileobj)
                        try:
                            key.data.shutdown(socket.SHUT_WR)
                        except OSError:
                            return
