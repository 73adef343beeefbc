# Runs a command as on a kernel without nftables: the command gets no netlink socket of netfilter.
import ctypes, os, platform, struct, sys

# A filter of system calls in classic BPF: `socket` with protocol 12 (NETLINK_NETFILTER) fails with
# EPROTONOSUPPORT.
socket, refused, allowed = {"x86_64": 41}.get(platform.machine(), 198), 0x5005D, 0x7FFF0000
code = [(32, 0, 0, 0), (21, 0, 3, socket), (32, 0, 0, 32), (21, 0, 1, 12)]
code += [(6, 0, 0, refused), (6, 0, 0, allowed)]
steps = b"".join(struct.pack("HBBI", *step) for step in code)
code = ctypes.create_string_buffer(steps)
program = ctypes.create_string_buffer(struct.pack("H6xQ", 6, ctypes.addressof(code)))
libc = ctypes.CDLL(None)
# PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with the filter.
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
