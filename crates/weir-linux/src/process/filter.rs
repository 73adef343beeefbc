//! The filter of system calls of a daemon that has started.
//!
//! The filter lists the permitted calls; all others fail with `EPERM`. No permitted call starts a
//! program, enters or creates a namespace, mounts a file system, traces another process, loads a
//! module or an eBPF program, or makes memory executable.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op,
    SeccompCondition as Condition, SeccompFilter, SeccompRule,
};

use super::confine::ConfineError;

/// Restricts all current and later threads of this process to the system calls that a running
/// daemon needs.
///
/// # Errors
/// The kernel has no such filters, or a thread already has its own filter.
pub fn filter_system_calls() -> Result<(), ConfineError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let allowed: BpfProgram = SeccompFilter::new(
        rules()?,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        arch,
    )?
    .try_into()?;
    // The flags of clone3 are in memory, which a filter cannot read. After ENOSYS the C library
    // uses clone.
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let refused: BpfProgram = SeccompFilter::new(
        no_clone3,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    )?
    .try_into()?;
    seccompiler::apply_filter_all_threads(&refused)?;
    Ok(seccompiler::apply_filter_all_threads(&allowed)?)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let plain = ALLOWED.iter().chain(LEGACY).copied().chain([libc::SYS_clone3]);
    let mut rules: Rules = plain.map(|call| (call, Vec::new())).collect();
    // clone may create threads, but no namespaces.
    let namespaces = (libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP) as u64;
    let thread = [
        Condition::new(0, Len::Qword, Op::MaskedEq(namespaces), 0)?,
        Condition::new(
            0,
            Len::Qword,
            Op::MaskedEq(libc::CLONE_THREAD as u64),
            libc::CLONE_THREAD as u64,
        )?,
    ];
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(thread.into())?]);
    let family = |family: libc::c_int| {
        SeccompRule::new(vec![Condition::new(0, Len::Dword, Op::Eq, family as u64)?])
    };
    let families =
        [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_INET, libc::AF_INET6]
            .map(family);
    rules.insert(libc::SYS_socket, families.into_iter().collect::<Result<_, _>>()?);
    let is_any = |argument, values: &[u64]| {
        let rule =
            |&value| SeccompRule::new(vec![Condition::new(argument, Len::Dword, Op::Eq, value)?]);
        values.iter().map(rule).collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_ioctl, is_any(1, IOCTLS)?);
    rules.insert(libc::SYS_prctl, is_any(0, PRCTLS)?);
    let not_executable = || {
        let executable = libc::PROT_EXEC as u64;
        let none = Condition::new(2, Len::Dword, Op::MaskedEq(executable), 0)?;
        Ok::<_, seccompiler::BackendError>(vec![SeccompRule::new(vec![none])?])
    };
    rules.insert(libc::SYS_mmap, not_executable()?);
    rules.insert(libc::SYS_mprotect, not_executable()?);
    Ok(rules)
}

/// Requests about sockets: the interface's number, name, address and MTU, the socket's namespace,
/// and non-blocking mode.
const IOCTLS: &[u64] = &[
    libc::SIOCGIFINDEX,
    libc::SIOCGIFNAME,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFMTU,
    SIOCGSKNS,
    libc::FIONBIO,
];

/// `SIOCGSKNS` of linux/sockios.h: a descriptor of the socket's network namespace.
const SIOCGSKNS: u64 = 0x894C;

/// Settings of a thread that starts: its name and its timers. The C library also names areas of
/// memory.
const PRCTLS: &[u64] = &[
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_TIMERSLACK as u64,
    libc::PR_SET_VMA as u64,
];

/// The system calls that are permitted with any arguments: those of the daemon, and those that the
/// C library and the Rust runtime make for it.
const ALLOWED: &[i64] = &[
    // Descriptors and files: the state directory, rules to reload, the token.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    // Sockets; the filter above restricts their families.
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_membarrier,
    // Threads and signals.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu,
    // Resource limits and processors.
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getrandom,
    libc::SYS_umask,
];

/// Calls that C libraries still make on this architecture and that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_accept,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[i64] = &[libc::SYS_accept];
