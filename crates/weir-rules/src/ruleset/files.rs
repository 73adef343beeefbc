//! The values that links have from files: equal values share their memory, which is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::config::LinkConfig;

use super::{ApplyError, Ruleset};
use crate::command::{Command, NetConfigCommand, Spanned};
use crate::parsed::{Distinct, MOST_MEMORY, has_values};

impl Ruleset {
    /// Lets equal values from files share their memory, after `commands` were applied.
    ///
    /// # Errors
    /// All values together take more memory than [`MOST_MEMORY`]. The error has the index of the
    /// last command that brought a value.
    pub fn share_files(&mut self, commands: &[Spanned]) -> Result<(), (usize, ApplyError)> {
        let brings = |spanned: &Spanned| match &spanned.command {
            Command::ConfigPipe(_, spec) => has_values(&spec.pipe.link),
            Command::ConfigSched(_, spec) => has_values(&spec.link.pipe.link),
            Command::NetConfig(NetConfigCommand::Config(config)) => {
                has_values(&config.inbound.pipe.link) || has_values(&config.outbound.pipe.link)
            }
            _ => false,
        };
        let Some(last) = commands.iter().rposition(brings) else { return Ok(()) };
        let mut distinct = Distinct::default();
        self.share_with(&mut distinct);
        let bytes = distinct.bytes();
        if bytes <= MOST_MEMORY {
            return Ok(());
        }
        Err((last, ApplyError::TooMuchMemory { mib: bytes.div_ceil(1 << 20) }))
    }

    /// Adds the values from files to `distinct`. A value that equals an earlier one is replaced by
    /// the earlier one.
    pub fn share_with(&mut self, distinct: &mut Distinct) {
        share(&mut self.pipes, |spec| &spec.pipe.link, |spec| &mut spec.pipe.link, distinct);
        share(
            &mut self.scheds,
            |sched| &sched.link.pipe.link,
            |sched| &mut sched.link.pipe.link,
            distinct,
        );
        for link in &mut self.netconfigs {
            let mut config = (*link.config).clone();
            let inbound = distinct.share_link(&mut config.inbound.pipe.link);
            if distinct.share_link(&mut config.outbound.pipe.link) || inbound {
                link.config = Arc::new(config);
            }
        }
    }
}

type Objects<T> = Arc<BTreeMap<u16, Arc<T>>>;

fn share<T: Clone>(
    objects: &mut Objects<T>,
    link: fn(&T) -> &LinkConfig,
    link_mut: fn(&mut T) -> &mut LinkConfig,
    distinct: &mut Distinct,
) {
    let with_values = objects.iter().filter(|(_, spec)| has_values(link(spec)));
    let replaced: Vec<_> = with_values
        .filter_map(|(number, spec)| {
            let mut link = link(spec).clone();
            distinct.share_link(&mut link).then_some((*number, link))
        })
        .collect();
    for (number, link) in replaced {
        if let Some(spec) = Arc::make_mut(objects).get_mut(&number) {
            *link_mut(Arc::make_mut(spec)) = link;
        }
    }
}
