"""Hosts of a drill: this machine, or network namespaces of its own with a bridge between them."""

import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_BRIDGE = "bridge"
NETWORK = "10.77.0.0/24"


class NoNamespaces(Exception):
    """Network namespaces cannot be made here; the message says why."""


@dataclass(frozen=True)
class Host:
    """Where processes run: ``prefix`` goes before their commands."""

    name: str
    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


HERE = Host("here")


class Network:
    """Namespaces that reach each other and nothing else. Nothing of it is in the machine's own namespace."""

    def __init__(self, switch: str) -> None:
        self._switch = switch
        self._numbers = itertools.count(2)
        self._hosts: dict[str, Host] = {}

    def add(self, name: str, address: str = "") -> Host:
        """One more host, at an address of its own or at that of one that was removed."""
        namespace = f"{self._switch}-{name}"
        number = next(self._numbers)
        host = Host(name, address or f"10.77.0.{number}", ("ip", "netns", "exec", namespace))
        _ip("netns", "add", namespace)
        self._hosts[name] = host
        port = _port(name)
        _in(self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _in(self._switch, "link", "set", port, "master", _BRIDGE, "up")
        _in(namespace, "link", "set", "lo", "up")
        _in(namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        _in(namespace, "link", "set", "eth0", "up")
        return host

    def cut_off(self, host: Host) -> None:
        """As if its cable were pulled: nothing is refused, nothing arrives."""
        _in(self._switch, "link", "set", _port(host.name), "down")

    def connect_again(self, host: Host) -> None:
        _in(self._switch, "link", "set", _port(host.name), "up")

    def remove(self, host: Host) -> None:
        """End the processes that are left in it, and the host with them."""
        namespace = f"{self._switch}-{host.name}"
        for pid in _ip("netns", "pids", namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _in(self._switch, "link", "del", _port(host.name))
        _ip("netns", "del", namespace)
        del self._hosts[host.name]

    def remove_all(self) -> None:
        for host in list(self._hosts.values()):
            self.remove(host)


@contextlib.contextmanager
def network() -> Iterator[tuple[Network, Host]]:
    """A network of which this process is the first host, for as long as the context lasts."""
    name = f"drill-{os.getpid()}"
    try:
        _ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoNamespaces("Network namespaces need root and the command `ip`.") from error
    try:
        front = Host("front", "10.77.0.1")
        _in(name, "link", "set", "lo", "up")
        _in(name, "link", "add", _BRIDGE, "type", "bridge")
        _in(name, "addr", "add", f"{front.address}/24", "dev", _BRIDGE)
        _in(name, "link", "set", _BRIDGE, "up")
        found = Network(name)
        with _entered(name):
            try:
                yield found, front
            finally:
                found.remove_all()
    finally:
        _ip("netns", "del", name)


@contextlib.contextmanager
def _entered(namespace: str) -> Iterator[None]:
    """This thread, and what it starts, in a namespace."""
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        with Path("/run/netns", namespace).open("rb") as there:
            _set_namespace(there.fileno())
        try:
            yield
        finally:
            _set_namespace(before.fileno())


def _set_namespace(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _port(name: str) -> str:
    return f"to-{name}"


def _in(namespace: str, *words: str) -> str:
    return _ip("-n", namespace, *words)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout  # noqa: S607
