//! The words of a network card.

use weir_core::device::{Completion, DQL_MOST, Done, DqlConfig};
use weir_core::units::Nanos;

use super::Parser;
use crate::diagnostic::Code;
use crate::keyword::{Id, Keyword};
use crate::lex::Word;
use crate::quantity::{self, MAX_DELAY, QuantityError};
use crate::raw::At;

impl Parser<'_> {
    /// One of these keywords with its value.
    pub(super) fn device(&mut self, row: &'static Keyword, word: &Word) {
        match row.id {
            Id::Ring => {
                let ring = self.places(row, word, MAX_RING);
                self.raw.ring = ring.map(|At { value, span }| {
                    let when = if self.flag("sent") { Done::Sent } else { Done::Read };
                    At { value: (value, when), span }
                });
            }
            Id::Dql => self.raw.dql = self.dql(row, word),
            Id::Coalesce => {
                self.raw.coalesce = self.quantity(row, word, coalesce).map(|at| at.value)
            }
            _ => {
                self.raw.cpu = self
                    .quantity(row, word, |text| quantity::time(text, MAX_CPU))
                    .map(|at| at.value)
            }
        }
    }

    fn dql(&mut self, row: &'static Keyword, keyword: &Word) -> Option<DqlConfig> {
        let (mut dql, mut given) = (DqlConfig::default(), Vec::new());
        while let Some(option) = self.peek().cloned() {
            if self.flag("min") {
                dql.least = self.quantity(row, &option, limit)?.value;
            } else if self.flag("max") {
                dql.most = self.quantity(row, &option, limit)?.value;
            } else if self.flag("hold") {
                dql.hold =
                    self.quantity(row, &option, |text| quantity::time(text, MAX_DELAY))?.value;
            } else {
                break;
            }
            self.once(row, &mut given, &option.text, &option.span);
        }
        if dql.least > dql.most {
            let error = self.error(
                Code::Contradiction,
                &keyword.span,
                "the least limit is above the greatest".to_owned(),
            );
            self.diagnostics.push(
                error
                    .label("its `min` is above its `max`")
                    .help("give a smaller `min`, or a larger `max`"),
            );
        }
        Some(dql)
    }
}

fn limit(text: &str) -> Result<u32, QuantityError> {
    quantity::size(text).and_then(|bytes| {
        u32::try_from(bytes)
            .ok()
            .filter(|&bytes| bytes <= DQL_MOST)
            .ok_or(QuantityError::OutOfRange)
    })
}

/// `N/TIME`.
fn coalesce(text: &str) -> Result<Completion, QuantityError> {
    let (frames, time) = text.split_once('/').ok_or(QuantityError::NotANumber)?;
    match quantity::count(frames, MAX_COALESCED)? {
        0 => Err(QuantityError::OutOfRange),
        frames => Ok(Completion {
            frames,
            time: quantity::time(time, MAX_DELAY)?,
            ..Completion::default()
        }),
    }
}

/// Most places of a ring in packets.
const MAX_RING: u32 = 1_000_000;
/// Most packets of one report.
const MAX_COALESCED: u32 = 65_535;
/// Longest that a packet keeps the processor.
const MAX_CPU: Nanos = Nanos::from_secs(1);
