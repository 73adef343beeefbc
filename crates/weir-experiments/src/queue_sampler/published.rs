//! The published tables.

use weir_report::finding::Provenance;

use crate::sources::{self, published as in_document};

/// The published results for one number of clients.
pub(super) struct Published {
    pub(super) clients: u16,
    /// Samples in 180 s: by the sampler, and by `tc`.
    pub(super) samples: [f64; 2],
    /// Consecutive samples of the sampler that are equal, and those that differ by one packet, in
    /// percent.
    pub(super) sampler: [f64; 2],
    /// The same shares of the samples of `tc`.
    pub(super) tc: [f64; 2],
}

pub(super) const PUBLISHED: [Published; 5] = [
    Published {
        clients: 2,
        samples: [33_349_471.0, 80_805.0],
        sampler: [98.2, 1.7],
        tc: [73.5, 24.7],
    },
    Published {
        clients: 5,
        samples: [24_668_412.0, 74_678.0],
        sampler: [95.7, 3.9],
        tc: [37.6, 35.2],
    },
    Published {
        clients: 20,
        samples: [6_091_856.0, 58_002.0],
        sampler: [77.6, 18.8],
        tc: [10.5, 19.7],
    },
    Published {
        clients: 50,
        samples: [5_070_866.0, 55_786.0],
        sampler: [54.2, 38.3],
        tc: [16.1, 27.6],
    },
    Published {
        clients: 100,
        samples: [4_176_729.0, 48_312.0],
        sampler: [42.2, 45.6],
        tc: [12.7, 22.4],
    },
];
pub(super) const SPEED: Provenance = in_document(sources::SAMPLER, "table of samples");
pub(super) const VARIANCE: Provenance = in_document(sources::SAMPLER, "tables of variance");
pub(super) const PUBLISHED_SECONDS: f64 = 180.0;

/// The published results with this number of clients.
pub(super) fn published(clients: u16) -> Option<&'static Published> {
    PUBLISHED.iter().find(|published| published.clients == clients)
}
