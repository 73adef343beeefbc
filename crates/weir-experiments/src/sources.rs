//! The documents and programs that experiments compare with.

use weir_report::finding::Provenance;

/// The strict-priority approximation of a PIFO.
pub(crate) const PIFO_SWITCH: &str = "PIFO on a P4 software switch by eight strict-priority queues";
/// The analysis of transmission rings.
pub(crate) const RINGS: &str = "P. Imputato and S. Avallone, An analysis of the impact of network \
    device buffers on packet schedulers, Simulation Modelling Practice and Theory 80 (2018)";
/// The introduction of QFQ.
pub(crate) const QFQ_TALK: &str = "L. Rizzo, Google Tech Talk, April 2010";
/// The introduction of QFQ+.
pub(crate) const QFQ_PLUS: &str = "P. Valente, patch that turns QFQ into QFQ+, October 2012";
/// SP-PIFO.
pub(crate) const SP_PIFO: &str = "A. Alcoz, A. Dietmüller and L. Vanbever, SP-PIFO: Approximating \
    Push-In First-Out Behaviors using Strict-Priority Queues, NSDI 2020";
/// The performance anomaly of 802.11b.
pub(crate) const ANOMALY: &str = "M. Heusse, F. Rousseau, G. Berger-Sabbatel and A. Duda, \
    Performance anomaly of 802.11b, INFOCOM 2003";
/// The Fast Queue Sampler.
pub(crate) const SAMPLER: &str = "M. Sanalla, Z. Jahshan and R. Mitrany, Sampling Linux packet \
                                  transmission queues with Fast Queue Sampler";

/// Our own measurements with ns-3.
pub(crate) const NS3: Provenance = Provenance::Measured {
    program: "ns-3",
    version: "traffic-control models of a 3.4x build from PyPI",
    date: "November 2026",
};

/// The provenance of values that are published at a place in a document.
pub(crate) const fn published(document: &'static str, place: &'static str) -> Provenance {
    Provenance::Published { document, place }
}
