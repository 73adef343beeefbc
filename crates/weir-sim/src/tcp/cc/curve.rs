//! The curve of CUBIC in fixed point.
//!
//! `cubic.rs` has the equations, and the units in its section "Fixed point".

use weir_core::settings::UNIT;

/// K in ns: ∛(b / C), with b = `below` / `mss` segments and C = `c` / 10⁹ segments/s³. `below` is
/// the distance to the plateau in any unit, and `mss` is the length of a segment in this unit.
pub(super) fn time_to_plateau(below: u64, mss: u64, c: u64) -> u64 {
    // In 2^-60 s³, so that the root is in 2^-20 s.
    let cube = ((u128::from(below.min(1 << 40)) << 60) / u128::from(mss))
        .saturating_mul(UNIT.into())
        / u128::from(c);
    ((u128::from(root(cube)) * 1_000_000_000) >> 20) as u64
}

/// The value of the curve `t` ns after it began, in the unit of `origin`. The curve reaches the
/// plateau `origin` after `k` ns. `mss` is the length of a segment in this unit.
pub(super) fn point(t: u64, k: u64, origin: u64, mss: u64, c: u64) -> u64 {
    let distance = t.abs_diff(k);
    // In 2^-20 s, limited to twelve days.
    let x = ((u128::from(distance) << 20) / 1_000_000_000).min(1 << 40);
    let height = scaled_product(x * x * x, u128::from(c) * u128::from(mss));
    if t < k { origin.saturating_sub(height) } else { origin.saturating_add(height) }
}

/// The product, in whole units, of `cube` in 2^-60 s³ and `factor` in billionths of a unit/s³.
fn scaled_product(cube: u128, factor: u128) -> u64 {
    let scale = u128::from(UNIT) << 60;
    let units = match cube.checked_mul(factor) {
        Some(product) => product / scale,
        None => (cube / scale).saturating_mul(factor),
    };
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// The integer cube root.
fn root(value: u128) -> u64 {
    let mut root: u128 = 0;
    for bit in (0..43).rev() {
        let tried = root | 1 << bit;
        if tried * tried * tried <= value {
            root = tried;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    #[test]
    fn k_and_the_curve_are_those_of_the_rfc() {
        let c = UNIT / 10 * 4;
        for w_max in [20.0, 100.0, 1000.0, 50_000.0] {
            let window: f64 = w_max * 0.7;
            let k = ((w_max - window) / 0.4).cbrt();
            let measured = time_to_plateau(((w_max - window) * MSS as f64) as u64, MSS, c);
            assert!(
                (measured as f64 / 1e9 - k).abs() < 2e-6 * k.max(1.0),
                "{w_max}: {measured} against {k}"
            );
            for t in [0.0, 0.3, 1.0, 2.5, 10.0, 60.0] {
                let closed = (0.4 * (t - k) * (t - k) * (t - k) + w_max).max(0.0) * MSS as f64;
                let fixed =
                    point((t * 1e9) as u64, measured, (w_max * MSS as f64) as u64, MSS, c) as f64;
                assert!(
                    (fixed - closed).abs() <= 1.0 + 1e-4 * closed,
                    "{w_max} {t}: {fixed} against {closed}"
                );
            }
        }
    }
}
