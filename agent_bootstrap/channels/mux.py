"""Many streams over one pipe: the output and input of a process, a pair of folders.

Each frame is a stream's number, a kind and a length, then so many bytes. One end opens streams, the other accepts them
and says so by its first credit; a stream carries no more than its reader has given credit for, so that one that nobody
reads holds up no other.

    OPEN    opener to acceptor, with where it goes        CREDIT   so many more bytes may come
    DATA    bytes                                         RESET    the stream is over at once; the bytes say why
    END     no more bytes in this direction               PING     (stream 0) somebody is there
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from enum import IntEnum

from agent_bootstrap.channels.streams import CHUNK_BYTES, OPEN_LIMIT_S, Stream, join

HEAD = struct.Struct("!IBI")
CREDIT = struct.Struct("!I")
WINDOW_BYTES = 512 * 1024
MAX_CREDIT = 2**31 - 1
"""No end has any use for more."""
SMALL_BYTES = 4096
"""What comes in smaller pieces is kept together: each piece costs memory of its own."""
WRITE_BYTES = 256 * 1024
"""Frames that wait go to the pipe together, up to about so much."""
CREDIT_DELAY_S = 0.005
"""The first credit may come so much later where nobody waits for it: it goes to the pipe with an answer, then."""
FRAMES_IN_A_STEP = 64
"""Then others have their turn: a peer may send very many very small ones."""
MAX_STREAMS = 4096
PING_S = 15.0
SILENCE_S = 45.0
"""A pipe that says nothing, or takes nothing, for so long is over."""

log = logging.getLogger(__name__)

Dial = Callable[[bytes], Awaitable[Stream]]
"""Where a stream goes on. It is given what the opener said; OSError with words refuses."""


class FrameKind(IntEnum):
    OPEN = 1
    DATA = 2
    END = 3
    CREDIT = 4
    RESET = 5
    PING = 6


class Mux:
    """`run` carries, `open` opens. Over when the pipe is: all of its streams break then."""

    def __init__(
        self,
        pipe: Stream,
        *,
        dial: Dial | None = None,
        name: str = "the pipe to the master",
        ping_s: float = PING_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        """`dial`: of an end that accepts. `name`: of the pipe, in errors."""
        self._pipe = pipe
        self._name = name
        self._dial = dial
        self._ping_s = ping_s
        self._silence_s = silence_s
        self._streams: dict[int, MuxStream] = {}
        self._last = 0
        self._outgoing: deque[tuple[bytes, asyncio.Future[None] | None]] = deque()
        """Frames, and who waits until they are written, if anybody does."""
        self._has_outgoing = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = ""
        self._patience: asyncio.Timeout | None = None
        self.heard = asyncio.Event()
        """The other end has said something."""

    async def run(self) -> str:
        """Until the pipe is over; why it is."""
        own = [asyncio.create_task(self._ping()), asyncio.create_task(self._write_frames())]
        try:
            await self._listen()
        except TimeoutError:
            self._over = self._over or f"{self._name} was silent for {self._silence_s:g} s"
        except (OSError, ValueError) as error:
            self._over = self._over or f"{self._name} broke: {error}"
        finally:
            self._over = self._over or f"{self._name} was closed"
            for stream in list(self._streams.values()):
                stream.fail(self._over)
            self._streams.clear()
            self._fail_writers()
            tasks = [*own, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._pipe.close()
        return self._over

    def end(self, why: str) -> None:
        """`run` returns `why`, and all streams break with it."""
        self._over = self._over or why
        if self._patience is not None:
            self._patience.reschedule(0)

    async def open(self, target: bytes = b"", first: bytes = b"") -> Stream:
        """`target`: where it goes, if the other end has a choice. `first`: what is written first, which goes along.

        Raises OSError with words: the other end's, if it refused. With `first` nobody waits for its acceptance: a
        refusal is an error of the first `read`.
        """
        if self._over or len(self._streams) >= MAX_STREAMS:
            raise ConnectionError(self._over or f"{MAX_STREAMS} connections are open already")
        self._last += 1
        stream = MuxStream(self, self._last, credit=0)
        self._streams[stream.number] = stream
        try:
            async with asyncio.timeout(2 * OPEN_LIMIT_S):
                await self._send_open(stream, target, first[:CHUNK_BYTES])
                if not first:
                    await stream.accepted()
            await stream.write(first[CHUNK_BYTES:])
        except TimeoutError:
            stream.close()
            raise ConnectionError("the other end of the pipe does not answer") from None
        except BaseException:
            stream.close()
            raise
        return stream

    async def _send_open(self, stream: MuxStream, target: bytes, first: bytes) -> None:
        frame = _frame(stream.number, FrameKind.OPEN, target)
        if first:
            stream.advance(len(first))
            frame += _frame(stream.number, FrameKind.DATA, first)
        await self._send(frame)

    async def send(self, number: int, kind: FrameKind, data: bytes = b"") -> None:
        """Returns when the pipe has taken it. It goes as a whole even if whoever waits for that is cancelled."""
        await self._send(_frame(number, kind, data))

    async def _send(self, frame: bytes) -> None:
        if self._over:
            raise ConnectionError(self._over)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._outgoing.append((frame, written))
        self._has_outgoing.set()
        await written

    async def _write_frames(self) -> None:
        """Until the pipe is over. Alone: half a frame, and nothing that follows would be understood."""
        try:
            while True:
                await self._has_outgoing.wait()
                if not self._outgoing:
                    self._has_outgoing.clear()
                    continue
                frames = self._next_frames()
                async with asyncio.timeout(self._silence_s):
                    await self._pipe.write(b"".join(frames))
                for _ in frames:
                    _, written = self._outgoing.popleft()
                    if written is not None and not written.done():
                        written.set_result(None)
        except TimeoutError:
            self.end(f"{self._name} took nothing for {self._silence_s:g} s")
        except OSError as error:
            self.end(f"{self._name} broke: {error}")
        self._fail_writers()

    def _next_frames(self) -> list[bytes]:
        frames, size = [], 0
        for frame, _ in self._outgoing:
            frames.append(frame)
            size += len(frame)
            if size >= WRITE_BYTES:
                break
        return frames

    def _fail_writers(self) -> None:
        for _, written in self._outgoing:
            if written is not None and not written.done():
                written.set_exception(ConnectionError(self._over))
        self._outgoing.clear()

    def closed(self, number: int, *, told: bool) -> None:
        """By its owner. `told`: the other end knows."""
        if self._streams.pop(number, None) is not None and not told and not self._over:
            self._start(self._tell(number))

    async def _tell(self, number: int, why: str = "") -> None:
        with suppress(OSError):
            await self.send(number, FrameKind.RESET, why.encode()[:1000])

    async def _ping(self) -> None:
        with suppress(OSError):
            while True:
                await self.send(0, FrameKind.PING)
                await asyncio.sleep(self._ping_s)

    async def _listen(self) -> None:
        unread = bytearray()
        taken = 0
        while not self._over:
            while not self._over and (frame := _first(unread)) is not None:
                self._take(*frame)
                taken += 1
                if taken % FRAMES_IN_A_STEP == 0:
                    await asyncio.sleep(0)
            try:
                async with asyncio.timeout(self._silence_s) as self._patience:
                    data = await self._pipe.read()
            finally:
                self._patience = None
            if not data:
                return
            self.heard.set()
            unread += data

    def _take(self, number: int, kind: FrameKind, data: bytes) -> None:
        if kind is FrameKind.OPEN:
            self._take_open(number, data)
        elif kind is not FrameKind.PING and (stream := self._streams.get(number)) is not None:
            stream.take(kind, data)  # of any other the end may have crossed what was on its way

    def _take_open(self, number: int, target: bytes) -> None:
        if self._dial is None or number == 0 or number in self._streams:
            raise ValueError("a stream that it may not open")
        if len(self._streams) >= MAX_STREAMS:
            if len(self._tasks) >= 2 * MAX_STREAMS:
                raise ValueError("it asks for more than it takes answers")
            self._start(self._tell(number, "too many connections"))
            return
        stream = self._streams[number] = MuxStream(self, number, credit=WINDOW_BYTES)
        self._start(self._serve(stream, self._dial, target))

    async def _serve(self, stream: MuxStream, dial: Dial, target: bytes) -> None:
        try:
            onward = await dial(target)
        except OSError as error:
            await self._tell(stream.number, str(error))
            self.closed(stream.number, told=True)
            return
        try:
            with suppress(OSError):
                await self._accept(stream)
                await join(stream, onward)
        finally:
            onward.close()

    async def _accept(self, stream: MuxStream) -> None:
        if not stream.has_bytes or len(self._outgoing) >= MAX_STREAMS:
            await self.send(stream.number, FrameKind.CREDIT, CREDIT.pack(WINDOW_BYTES))
            return
        # Its opener has asked something already, and waits for the answer. A peer that takes no frames has no more of
        # these than it may have streams.
        frame = _frame(stream.number, FrameKind.CREDIT, CREDIT.pack(WINDOW_BYTES))
        self._outgoing.append((frame, None))
        asyncio.get_running_loop().call_later(CREDIT_DELAY_S, self._has_outgoing.set)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class MuxStream:
    """Implements `Stream`."""

    def __init__(self, mux: Mux, number: int, *, credit: int) -> None:
        self.number = number
        self._mux = mux
        self._credit = credit
        self._is_accepted = credit > 0
        """Some was given by the end that did not open it."""
        self._came: deque[bytes] = deque()
        self._unread = 0
        self._read = 0
        """Since credit was last given."""
        self._ended = False
        self._has_ended = False
        self._failure = ""
        self._is_closed = False
        self._change = asyncio.Event()

    def advance(self, count: int) -> None:
        """So many bytes go with the frame that opens it: the first credit is for them, too."""
        self._credit = -count

    @property
    def has_bytes(self) -> bool:
        return bool(self._came)

    async def accepted(self) -> None:
        while not self._is_accepted:
            await self._changed()

    async def read(self) -> bytes:
        while not self._came:
            if self._ended:
                return b""
            await self._changed()
        data = self._came.popleft()
        self._unread -= len(data)
        self._read += len(data)
        if self._read >= WINDOW_BYTES // 2 and not self._ended:
            given, self._read = self._read, 0
            await self._mux.send(self.number, FrameKind.CREDIT, CREDIT.pack(given))
        return data

    async def write(self, data: bytes) -> None:
        left = memoryview(data)
        if left and self._has_ended:
            raise ConnectionError("it has ended this direction already")
        while left:
            while self._credit <= 0:
                await self._changed()
            self._check()
            count = min(self._credit, CHUNK_BYTES, len(left))
            self._credit -= count
            await self._mux.send(self.number, FrameKind.DATA, bytes(left[:count]))
            left = left[count:]

    async def end(self) -> None:
        if not self._has_ended and not self._failure:
            self._has_ended = True
            await self._mux.send(self.number, FrameKind.END)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            is_over = bool(self._failure) or (self._ended and self._has_ended)
            self.fail("closed")
            self._mux.closed(self.number, told=is_over)

    def take(self, kind: FrameKind, data: bytes) -> None:
        """From the other end. Raises ValueError for what it may not send."""
        match kind:
            case FrameKind.DATA | FrameKind.END if self._ended:
                raise ValueError("more of a direction that has ended")
            case FrameKind.DATA:
                self._keep(data)
            case FrameKind.CREDIT:
                amount = _amount(data)
                self._credit += amount
                self._is_accepted = self._is_accepted or amount > 0
                if self._credit > MAX_CREDIT:
                    raise ValueError(f"a credit of {self._credit} bytes")
            case FrameKind.END:
                self._ended = True
            case FrameKind.RESET:
                self.fail(data.decode(errors="replace") or "closed by the other end")
        self._change.set()

    def _keep(self, data: bytes) -> None:
        if not data:  # credit would bound no number of them
            raise ValueError("a frame without bytes")
        self._unread += len(data)
        if self._unread > WINDOW_BYTES:
            raise ValueError("more bytes than there was credit for")
        if self._came and len(self._came[-1]) + len(data) <= SMALL_BYTES:
            self._came[-1] += data
        else:
            self._came.append(data)

    def fail(self, why: str) -> None:
        self._failure = self._failure or why
        self._change.set()

    def _check(self) -> None:
        if self._failure:
            raise ConnectionError(self._failure)

    async def _changed(self) -> None:
        self._check()
        self._change.clear()
        await self._change.wait()


def _frame(number: int, kind: FrameKind, data: bytes) -> bytes:
    return HEAD.pack(number, kind, len(data)) + data


def _amount(data: bytes) -> int:
    if len(data) != CREDIT.size:
        raise ValueError("a credit that is none")
    return int(CREDIT.unpack(data)[0])


def _first(unread: bytearray) -> tuple[int, FrameKind, bytes] | None:
    """The first frame, taken out. None: it is not whole yet. Raises ValueError."""
    if len(unread) < HEAD.size:
        return None
    number, kind, length = HEAD.unpack_from(unread)
    if length > CHUNK_BYTES:
        raise ValueError(f"a frame of {length} bytes")
    if len(unread) < HEAD.size + length:
        return None
    data = bytes(unread[HEAD.size : HEAD.size + length])
    del unread[: HEAD.size + length]
    return number, FrameKind(kind), data
