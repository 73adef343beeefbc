//! Waiting for a point in time.

use std::time::Duration;

use weir_core::Nanos;
use weir_linux::clock;

/// Sleeps until a point on the monotonic clock, ns; for what need not be exact.
pub(crate) fn wait_until(at: u64) {
    let left = Nanos(at).since(clock::now());
    if left > Nanos::ZERO {
        std::thread::sleep(Duration::from_nanos(left.0));
    }
}

/// Sleeps to shortly before a point on the monotonic clock, ns, and spins the rest: the wake-up of
/// a sleeping thread is late.
pub(crate) fn spin_until(at: u64) {
    wait_until(at.saturating_sub(SPIN_NS));
    while clock::now().0 < at {
        std::hint::spin_loop();
    }
}

/// Asks the kernel not to round this thread's sleeps up.
pub(crate) fn exact_sleeps() {
    // Without it they are 50 us longer: worse, not wrong.
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// The usual lateness of a wake-up. More would take the processor from who has to forward what is
/// sent.
const SPIN_NS: u64 = 20_000;
