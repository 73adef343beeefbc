//! Latencies in results: seven numbers that summarise a histogram of times.

use crate::histogram::Histogram;

/// Defines the summary of a distribution from rows.
macro_rules! latency {
    ($(#[$doc:meta])* $type:ident; $($name:ident, $meaning:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $type {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl $type {
            /// Names and meanings of the seven numbers, in the order of the fields.
            pub const ROWS: [(&'static str, &'static str); [$($meaning),*].len()] =
                [$((stringify!($name), $meaning)),*];
        }
    };
}

latency! {
    /// The summary of a distribution of times, in ns. All numbers are 0 if there are no values.
    /// Quantiles have the precision of the histogram, and the mean is rounded to whole ns; the
    /// other numbers are exact.
    Latency;
    mean, "The mean.";
    p50, "The median.";
    p99, "The 99th percentile.";
    p999, "The 99.9th percentile.";
    max, "The greatest value.";
    min, "The least value.";
    count, "The number of values.";
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            mean: (histogram.mean() + 0.5) as u64,
            min: histogram.min(),
            p50: histogram.quantile(0.5),
            p99: histogram.quantile(0.99),
            p999: histogram.quantile(0.999),
            max: histogram.max(),
        }
    }
}

#[cfg(feature = "document")]
impl From<&crate::distribution::Distribution> for Latency {
    fn from(distribution: &crate::distribution::Distribution) -> Self {
        Self {
            count: distribution.count,
            mean: (distribution.mean() + 0.5) as u64,
            min: distribution.min,
            p50: distribution.quantile(0.5),
            p99: distribution.quantile(0.99),
            p999: distribution.quantile(0.999),
            max: distribution.max,
        }
    }
}
