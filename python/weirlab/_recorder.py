"""Records packets as pcapng on standard output. Started as a script inside a host of a live link.

Arguments: the number of bytes of a packet to record, and an interface, or an empty text for all but
`lo`. The script ends when its standard input ends. It prints a line on standard error when it
starts to record, and its counts at the end.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_BUFFER = 64 << 20
# The longest packet: a train of segments.
_LONGEST = 512 << 10
_ETHERNET = 1
_LOOPBACK = "lo"
_OUTGOING = 4
# Options of pcapng, and the flags of a packet's direction.
_NAME, _RESOLUTION, _FLAGS = 2, 9, 2
_INBOUND, _OUTBOUND = 1, 2
_NANOSECONDS = b"\x09"


def main(snaplen: int, interface: str) -> int:
    """Records until standard input ends."""
    # Without an interface, the socket receives the packets of all interfaces.
    protocol = 0 if interface else socket.htons(_ETH_P_ALL)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, protocol) as packets:
        try:
            packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        except OSError:
            # Without privileges on the machine, the buffer is as large as the kernel allows.
            packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        packets.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        try:
            if interface:
                packets.bind((interface, _ETH_P_ALL))
        except OSError as error:
            print(f"{interface}: {error.strerror}", file=sys.stderr)
            return 2
        packets.setblocking(False)
        with os.fdopen(1, "wb", buffering=1 << 20) as file:
            file.write(_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
            file.flush()
            print("recording", file=sys.stderr, flush=True)
            count = _record(packets, file.write, snaplen, bool(interface))
        _, dropped = struct.unpack("II", packets.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    print(json.dumps({"packets": count, "dropped": dropped}), file=sys.stderr, flush=True)
    return 0


def _record(
    packets: socket.socket, write: Callable[[bytes], object], snaplen: int, loopback: bool
) -> int:
    """Writes each packet; returns their number."""
    numbers: dict[str, int] = {}
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(packets, select.POLLIN)
    count = 0
    ended = False
    while not ended:
        ended = any(ready == 0 for ready, _ in poll.poll())
        # At the end, the packets that have already arrived are still recorded.
        while True:
            try:
                data, more, _, sender = packets.recvmsg(_LONGEST, 256)
            except BlockingIOError:
                break
            except OSError:
                # An interface went down.
                continue
            name, _, kind = sender[:3]
            if name == _LOOPBACK and not loopback:
                continue
            if name not in numbers:
                numbers[name] = len(numbers)
                write(_interface(name, snaplen))
            direction = _OUTBOUND if kind == _OUTGOING else _INBOUND
            length = len(data)
            write(_packet(numbers[name], _time_ns(more), data[:snaplen], length, direction))
            count += 1
    return count


def _time_ns(more: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in more:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return time.time_ns()


def _interface(name: str, snaplen: int) -> bytes:
    options = _option(_NAME, name.encode()) + _option(_RESOLUTION, _NANOSECONDS) + bytes(4)
    return _block(1, struct.pack("<HHI", _ETHERNET, 0, snaplen) + options)


def _packet(interface: int, time_ns: int, data: bytes, length: int, direction: int) -> bytes:
    high, low = time_ns >> 32, time_ns & 0xFFFFFFFF
    head = struct.pack("<IIIII", interface, high, low, len(data), length)
    options = _option(_FLAGS, struct.pack("<I", direction)) + bytes(4)
    return _block(6, head + _padded(data) + options)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
