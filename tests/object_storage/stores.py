"""Object stores on loopback: OpenStack Swift with its S3 interface, and Azurite with that of Azure.

Their packages are not this project's: they live in folders of their own, which `make swift` and `make azurite` fill.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
from pathlib import Path

#: Who may do what: `OWNER` makes buckets, `GUEST` only what an ACL allows, `STRANGER` has an account of its own.
OWNER = ("test:owner", "owner-secret-4f1c")
GUEST = ("test:guest", "guest-secret-9a2e")
STRANGER = ("other:stranger", "stranger-secret-77b0")
_DAEMONS = ("account", "container", "object", "proxy")

_SWIFT = """
[swift-hash]
swift_hash_path_suffix = of
swift_hash_path_prefix = tests
"""
_COMMON = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
log_level = ERROR
"""
_BEHIND = """
[pipeline:main]
pipeline = {name}-server

[app:{name}-server]
use = egg:swift#{name}
fallocate_reserve = 0
"""
# Without a memcached the cache filter is a cache of nothing; signatures need none.
_PROXY = f"""
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats s3api tempauth bulk slo dlo proxy-server

[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
# A server that was away is asked again as soon as it is back.
error_suppression_interval = 0
error_suppression_limit = 1000000

[filter:s3api]
use = egg:swift#s3api
check_bucket_owner = true

[filter:tempauth]
use = egg:swift#tempauth
user_test_owner = {OWNER[1]} .admin
user_test_guest = {GUEST[1]}
user_other_stranger = {STRANGER[1]} .admin

[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1

""" + "".join(
    f"[filter:{name}]\nuse = egg:swift#{name}\n\n"
    for name in ("catch_errors", "gatekeeper", "healthcheck", "listing_formats", "bulk", "slo", "dlo")
)
#: Makes the ring of one kind of server: 16 partitions, one copy, one device.
_RING = """
import sys
from swift.common.ring import RingBuilder
folder, *servers = sys.argv[1:]
for server in servers:
    name, port = server.split("=")
    builder = RingBuilder(4, 1, 0)
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": int(port), "device": "d"})
    builder.rebalance()
    builder.get_ring().save(f"{folder}/{name}.ring.gz")
"""


class Swift:
    """Four daemons with rings and users below `folder`, run by the programs of a virtual environment."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self._bin, self._folder = environment / "bin", folder
        self._running: dict[str, subprocess.Popen] = {}
        self._ports = dict(zip(_DAEMONS, _free_ports(len(_DAEMONS)), strict=True))
        self.url = f"http://127.0.0.1:{self._ports['proxy']}"
        (folder / "devices" / "d").mkdir(parents=True)
        (folder / "swift.conf").write_text(_SWIFT)
        for name, port in self._ports.items():
            rest = _PROXY if name == "proxy" else _BEHIND.format(name=name)
            (folder / f"{name}.conf").write_text(_COMMON.format(port=port, folder=folder) + rest)
        servers = [f"{name}={port}" for name, port in self._ports.items() if name != "proxy"]
        subprocess.run([self._bin / "python", "-I", "-c", _RING, folder, *servers], check=True, timeout=60)

    def start(self, *names: str) -> None:
        """Start the daemons of these names, or all that do not run, and wait until they answer."""
        for name in names or [n for n in _DAEMONS if n not in self._running]:
            log = (self._folder / f"{name}.log").open("ab")
            program, config = self._bin / f"swift-{name}-server", self._folder / f"{name}.conf"
            command, env = [self._bin / "python", "-I", program, config], {"SWIFT_DIR": str(self._folder)}
            with log:
                process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | env)
            self._running[name] = process
        for name, process in self._running.items():
            _wait_for(self._ports[name], process, self._folder / f"{name}.log")

    def stop(self, *names: str) -> None:
        """Kill the daemons of these names, or all; what they said yes to is on the disk."""
        for name in names or list(self._running):
            process = self._running.pop(name)
            process.kill()
            process.wait()


class Azurite:
    """A blob store below `folder`, run by the Node packages of `environment`."""

    def __init__(self, environment: Path, folder: Path) -> None:
        (port,) = _free_ports(1)
        self._log = folder / "log"
        command = ["node", environment / "node_modules/azurite/dist/src/blob/main.js", "--location", folder]
        options = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        options += ["--skipApiVersionCheck", "--disableTelemetry"]
        self.account, self.key = "tests", base64.b64encode(b"the key of the tests").decode()
        self._url = f"http://127.0.0.1:{port}/{self.account}"
        env = os.environ | {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=env)
        try:
            _wait_for(port, self._process, self._log)
        except BaseException:
            self.stop()
            raise

    def connection(self, key: str) -> str:
        """Return what leads a client to the store, with this key."""
        return f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={key};BlobEndpoint={self._url};"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_for(port: int, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"a store does not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.05)
