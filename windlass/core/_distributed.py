"""Ranks, and the few collective operations that the other contexts and training code need between them.

Messages go over plain TCP (see `_star`), not over the training framework: they are for coordination, not for tensors.
"""

from __future__ import annotations

import os
from typing import Any

from windlass.core._star import Chief, Worker, job_key

DEFAULT_PORT = 12360


class DistributedContext:
    """Where this process stands among the ranks of its job.

    `rank` of `size` in the whole job, `local_rank` of `local_size` on this machine, machine `cross_rank` of
    `cross_size`. `chief_ip` is required as soon as there is more than one machine. All collective calls must be made
    by all ranks, in the same order.
    """

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        chief_ip: str | None = None,
        pub_port: int | None = None,
        pull_port: int | None = None,
        port_offset: int = 0,
        force_tcp: bool = False,
    ) -> None:
        """`pull_port`, `port_offset` and `force_tcp` are accepted for the sake of older programs and change nothing."""
        del pull_port, port_offset, force_tcp
        if (
            not 0 <= rank < size
            or not 0 <= local_rank < local_size
            or not 0 <= cross_rank < cross_size
        ):
            raise ValueError("each of rank, local_rank and cross_rank must be below its size")
        if local_size != size and chief_ip is None:
            raise ValueError("chief_ip is required when the ranks are on several machines")
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self.cross_rank, self.cross_size = cross_rank, cross_size
        self._global: Chief | Worker | None = None
        self._local: Chief | Worker | None = None
        if size > 1:
            port = pub_port or int(os.environ.get("INTER_TRAIN_PROCESS_COMM_PORT_1", DEFAULT_PORT))
            self._connect("127.0.0.1" if local_size == size else chief_ip or "", port)

    def _connect(self, chief_host: str, port: int) -> None:
        key = job_key()
        one_machine = self.local_size == self.size
        if self.rank == 0:
            # Loopback only when nobody else needs to reach it.
            chief = Chief("127.0.0.1" if one_machine else "", port, self.size, key)
            self._global = chief
            chief.accept_all()
        else:
            self._global = Worker(chief_host, port, self.rank, key)
        if one_machine:
            self._local = self._global
            return
        self._connect_local(key)

    def _connect_local(self, key: bytes) -> None:
        local_chief: Chief | None = None
        if self.local_size > 1 and self.local_rank == 0:
            local_chief = self._local = Chief("127.0.0.1", 0, self.local_size, key)
        ports: dict[int, int] = dict(
            entry
            for entry in self.allgather(
                (self.cross_rank, local_chief.port) if local_chief is not None else None
            )
            if entry is not None
        )
        if local_chief is not None:
            local_chief.accept_all()
        elif self.local_size > 1:
            self._local = Worker("127.0.0.1", ports[self.cross_rank], self.local_rank, key)

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """Ranks from the variables that torchrun sets; the chief from the argument or DET_CHIEF_IP."""
        return cls._from_env(
            chief_ip,
            ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
        )

    @classmethod
    def from_deepspeed(cls, chief_ip: str | None = None) -> DistributedContext:
        """Ranks from the variables that DeepSpeed's launcher sets; the chief from the argument or DET_CHIEF_IP."""
        return cls._from_env(chief_ip, ("LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"))

    @classmethod
    def from_horovod(cls, hvd: Any, chief_ip: str | None = None) -> DistributedContext:
        """Ranks from an initialised horovod module; the chief from the argument or DET_CHIEF_IP."""
        return cls(
            rank=hvd.rank(),
            size=hvd.size(),
            local_rank=hvd.local_rank(),
            local_size=hvd.local_size(),
            cross_rank=hvd.cross_rank(),
            cross_size=hvd.cross_size(),
            chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP"),
        )

    @classmethod
    def _from_env(
        cls, chief_ip: str | None, names: tuple[str, str, str, str]
    ) -> DistributedContext:
        try:
            local_rank, local_size, cross_rank, cross_size = (int(os.environ[n]) for n in names)
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        except KeyError as missing:
            raise ValueError(
                f"{missing.args[0]} is not set: start ranks by their launcher"
            ) from None
        return cls(
            rank=rank,
            size=size,
            local_rank=local_rank,
            local_size=local_size,
            cross_rank=cross_rank,
            cross_size=cross_size,
            chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP"),
        )

    def get_rank(self) -> int:
        return self.rank

    def get_local_rank(self) -> int:
        return self.local_rank

    def get_size(self) -> int:
        return self.size

    def get_num_agents(self) -> int:
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any] | None:
        """The chief gets everybody's `stuff` in rank order, the others None. Nobody returns before all have called."""
        return _gather(self._global, stuff)

    def gather_local(self, stuff: Any) -> list[Any] | None:
        return _gather(self._local, stuff)

    def allgather(self, stuff: Any) -> list[Any]:
        """Everybody gets everybody's `stuff` in rank order."""
        return _allgather(self._global, stuff)

    def allgather_local(self, stuff: Any) -> list[Any]:
        return _allgather(self._local, stuff)

    def broadcast(self, stuff: Any = None) -> Any:
        """Everybody gets the chief's `stuff`."""
        return _broadcast(self._global, stuff)

    def broadcast_local(self, stuff: Any = None) -> Any:
        return _broadcast(self._local, stuff)

    def close(self) -> None:
        """Leave the job. Calling it again does nothing."""
        for end in {id(e): e for e in (self._local, self._global) if e is not None}.values():
            end.close()


class DummyDistributedContext(DistributedContext):
    """The only rank of a job of one."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)


def _gather(end: Chief | Worker | None, stuff: Any) -> list[Any] | None:
    if end is None:
        return [stuff]
    if isinstance(end, Chief):
        everything = [stuff, *end.gather()]
        end.broadcast(None)
        return everything
    end.send(stuff)
    end.receive()
    return None


def _allgather(end: Chief | Worker | None, stuff: Any) -> list[Any]:
    if end is None:
        return [stuff]
    if isinstance(end, Chief):
        everything = [stuff, *end.gather()]
        end.broadcast(everything)
        return everything
    end.send(stuff)
    received: list[Any] = end.receive()
    return received


def _broadcast(end: Chief | Worker | None, stuff: Any) -> Any:
    if end is None:
        return stuff
    if isinstance(end, Chief):
        end.broadcast(stuff)
        return stuff
    return end.receive()
