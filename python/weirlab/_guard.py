"""Runs a command, and ends it when the process that started this guard ends, for whatever reason.

Standard input is a pipe from that process, so it is closed when the process ends. The command then
gets SIGTERM, as it does if this guard is killed. A command that does not end gets SIGKILL; the
kernel then ends all its programs. The guard is started as a script, in a process without other
threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

# A command that ends normally writes its results within this time, even on a busy machine.
_END_S = 12.0
_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> int:
    """Runs the command and returns its exit code."""
    guard = os.getpid()
    libc = ctypes.CDLL(None)

    def end_with_the_guard() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != guard:
            os._exit(1)

    # The function runs between fork and exec, which is safe since there is only one thread.
    # The command gets the descriptors that the guard was given.
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=end_with_the_guard,
        close_fds=False,
    )

    def watch() -> None:
        while os.read(0, 4096):
            pass
        child.terminate()
        # If the command ends in time, the main thread ends the guard, and this thread with it.
        time.sleep(_END_S)
        child.kill()

    threading.Thread(target=watch, daemon=True).start()
    status = child.wait()
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
