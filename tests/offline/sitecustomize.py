"""Refuse every connection beyond this machine, and write each attempt down.

Python imports a module of this name at start, so with this directory in PYTHONPATH the guard also
holds in notebook kernels, worker processes and scripts that a test starts. An audit hook is used,
because no library can go round it or take it off. `COURSE_NETWORK_LOG` names the log, one JSON
object per attempt; a test run fails unless it stays empty.
"""

import ipaddress
import json
import os
import socket
import sys

HERE = {None, "", "localhost", "localhost.localdomain", "ip6-localhost", socket.gethostname()}
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def is_local(host) -> bool:
    if isinstance(host, (bytes, bytearray)):
        host = host.decode(errors="replace")
    if host in HERE:
        return True
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


def refuse(event: str, target) -> None:
    log = os.environ.get("COURSE_NETWORK_LOG")
    if log:
        record = {"event": event, "target": str(target), "pid": os.getpid(), "argv": sys.argv}
        with open(log, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(record) + "\n")
    raise ConnectionRefusedError(f"the tests run offline: {event} to {target} was refused")


def guard(event: str, args: tuple) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        # Unix sockets have a path and netlink sockets a pair of numbers for an address.
        internet = isinstance(address, tuple) and address and isinstance(address[0], (str, bytes))
        if internet and not is_local(address[0]):
            refuse(event, address)
    elif event in LOOKUPS and not is_local(args[0]):
        refuse(event, args[0])


sys.addaudithook(guard)
sys.modules.setdefault("rfc3987_syntax", None)  # as in tools/notebooks.py: three seconds each time
