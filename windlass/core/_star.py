"""How the ranks of one job talk: a star of TCP connections around a chief.

A frame is `length (8 bytes) | HMAC-SHA256 (32 bytes) | payload`, and the payload is a pickle, because training code
sends arrays and dataclasses. A pickle is only loaded after its HMAC is checked. The key of a connection comes from a
challenge in both directions over the job's secret, so nobody without the secret is ever listened to, and the sequence
number in the HMAC refuses replays.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pickle
import socket
import struct
import time
from pathlib import Path
from typing import Any

JOIN_TIMEOUT_S = 600.0
"""How long ranks wait for each other at the start: images may still be pulled on some nodes."""
HANDSHAKE_TIMEOUT_S = 10.0
_RETRY_S = 0.2
_NONCE = 16
_DIGEST = 32
_RANK = struct.Struct("!I")
_LENGTH = struct.Struct("!Q")


def job_key() -> bytes:
    """The secret the ranks share: the allocation token on a cluster, WINDLASS_IPC_KEY, else a file of this user's.

    The file (0600, in the user's configuration directory) serves runs on one machine or with a shared home.
    """
    secret = os.environ.get("WINDLASS_IPC_KEY") or os.environ.get("DET_SESSION_TOKEN")
    if secret:
        return hashlib.sha256(secret.encode()).digest()
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "windlass"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = base / "ipc.key"
    if not path.exists():
        fresh = base / f".ipc.key.{os.getpid()}.{os.urandom(4).hex()}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(32))
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(fresh)  # whole or not at all, and the first rank wins
        fresh.unlink()
    return path.read_bytes()


class PeerLost(ConnectionError):
    """Another rank closed its connection: it has probably failed, and its own log says why."""


class _Line:
    """One authenticated connection."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self.sock = sock
        self.peer = peer
        self._key = b""
        self._sent = 0
        self._received = 0

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.sock.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise PeerLost(f"{self.peer} has closed its connection")
            data += piece
        return bytes(data)

    def secure(self, key: bytes, *, chief: bool, opening: bytes) -> None:
        """Prove the secret to each other. The proof covers `opening`, what was said in the clear before."""
        mine = os.urandom(_NONCE)
        self.sock.sendall(mine)
        theirs = self.read(_NONCE)
        nonces = (mine + theirs) if chief else (theirs + mine)
        proofs = [_digest(key, role + nonces + opening) for role in (b"chief", b"worker")]
        expected = proofs[1] if chief else proofs[0]
        if not chief:
            self.sock.sendall(proofs[1])
        if not hmac.compare_digest(self.read(_DIGEST), expected):
            raise PermissionError(f"{self.peer} does not know this job's key")
        if chief:
            self.sock.sendall(proofs[0])
        self._key = _digest(key, b"frames" + nonces)
        self._roles = (b"c", b"w") if chief else (b"w", b"c")

    def send(self, value: Any) -> None:
        payload = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        seal = _digest(self._key, self._roles[0] + _LENGTH.pack(self._sent) + payload)
        self._sent += 1
        self.sock.sendall(_LENGTH.pack(len(payload)) + seal + payload)

    def receive(self) -> Any:
        (length,) = _LENGTH.unpack(self.read(_LENGTH.size))
        seal = self.read(_DIGEST)
        payload = self.read(length)
        expected = _digest(self._key, self._roles[1] + _LENGTH.pack(self._received) + payload)
        if not hmac.compare_digest(seal, expected):
            raise PermissionError(f"a message of {self.peer} was changed on its way")
        self._received += 1
        return pickle.loads(payload)  # noqa: S301 - authenticated above

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def _digest(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


class Chief:
    """Rank 0 of a group: listens, and every round reads from or writes to all others."""

    def __init__(self, host: str, port: int, size: int, key: bytes) -> None:
        self._size = size
        self._key = key
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        self._lines: dict[int, _Line] = {}

    def accept_all(self, timeout_s: float = JOIN_TIMEOUT_S) -> None:
        """Wait for all other ranks. Connections without the right token are closed and do not count."""
        deadline = time.monotonic() + timeout_s
        while len(self._lines) < self._size - 1:
            self._listener.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                sock, address = self._listener.accept()
            except TimeoutError:
                missing = sorted(set(range(1, self._size)) - set(self._lines))
                raise TimeoutError(
                    f"ranks {missing} did not connect within {timeout_s:.0f} s"
                ) from None
            with contextlib.suppress(OSError, struct.error):
                self._admit(sock, str(address[0]))
        self._listener.close()

    def _admit(self, sock: socket.socket, address: str) -> None:
        line = _Line(sock, address)
        try:
            sock.settimeout(HANDSHAKE_TIMEOUT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opening = line.read(_RANK.size)
            line.secure(self._key, chief=True, opening=opening)
            (rank,) = _RANK.unpack(opening)
            if not 0 < rank < self._size or rank in self._lines:
                raise PermissionError(f"rank {rank} is taken or out of range")
        except BaseException:
            line.close()
            raise
        sock.settimeout(None)
        line.peer = f"rank {rank}"
        self._lines[rank] = line

    def gather(self) -> list[Any]:
        """One value of every other rank, in rank order."""
        return [self._lines[rank].receive() for rank in sorted(self._lines)]

    def broadcast(self, value: Any) -> None:
        for rank in sorted(self._lines):
            self._lines[rank].send(value)

    def close(self) -> None:
        self._listener.close()
        for line in self._lines.values():
            line.close()


class Worker:
    """Any other rank of a group: one connection to its chief."""

    def __init__(
        self, host: str, port: int, rank: int, key: bytes, timeout_s: float = JOIN_TIMEOUT_S
    ) -> None:
        self._line = self._connect(host, port, timeout_s)
        opening = _RANK.pack(rank)
        try:
            self._line.sock.settimeout(HANDSHAKE_TIMEOUT_S + timeout_s)
            self._line.sock.sendall(opening)
            self._line.secure(key, chief=False, opening=opening)
        except PeerLost as lost:
            self._line.close()
            raise PermissionError(
                f"the chief at {host}:{port} refused rank {rank}: do all ranks share WINDLASS_IPC_KEY?"
            ) from lost
        except BaseException:
            self._line.close()
            raise
        self._line.sock.settimeout(None)

    @staticmethod
    def _connect(host: str, port: int, timeout_s: float) -> _Line:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                sock = socket.create_connection((host, port), timeout=HANDSHAKE_TIMEOUT_S)
            except OSError as problem:
                if time.monotonic() >= deadline:
                    raise TimeoutError(
                        f"no chief at {host}:{port} after {timeout_s:.0f} s: {problem}"
                    ) from None
                time.sleep(_RETRY_S)
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Line(sock, "the chief")

    def send(self, value: Any) -> None:
        self._line.send(value)

    def receive(self) -> Any:
        return self._line.receive()

    def close(self) -> None:
        self._line.close()
