//! The links of a scenario: their specifications, schedulers and queues are in the command
//! language. The parser's diagnostics point into the scenario file.

use toml::Spanned;
use weir_core::config::{FlowsetConfig, SchedulerConfig};
use weir_core::sched::check_flow;
use weir_core::units::Rate;
use weir_rules::command::{Command, QueueSpec, SchedSpec};
use weir_rules::script::{self, Parsed};
use weir_rules::{Code, Files, LinkSpec, canonical, check_spec};

use super::Direction;
use super::collector::Collector;
use super::raw;

impl Direction {
    /// The configuration in the command language.
    pub fn words(&self) -> String {
        let Some(scheduler) = &self.scheduler else { return canonical(&self.spec) };
        let sched = SchedSpec { scheduler: scheduler.clone(), link: self.spec.clone() };
        let words = script::print(&Command::ConfigSched(1, Box::new(sched)));
        words.strip_prefix("sched 1 config ").unwrap_or(&words).to_owned()
    }

    /// The queues in front of the scheduler, by class, in the command language.
    pub fn queue_words(&self) -> Vec<String> {
        let one = |queue: &FlowsetConfig| {
            let words = script::print(&Command::ConfigQueue(
                1,
                Box::new(QueueSpec { scheduler: 1, flowset: queue.clone() }),
            ));
            words
                .strip_prefix("queue 1 config sched 1")
                .map_or(words.clone(), |words| words.trim().to_owned())
        };
        self.queues.iter().map(one).collect()
    }
}

/// Checks the configuration of one direction of a link; `name` is the name of its port.
pub(super) fn direction(
    link: &raw::Link,
    side: usize,
    name: String,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Direction {
    let (direction_spec, words, queues) = if side == 0 {
        (&link.forward, &link.scheduler, &link.queue)
    } else {
        (&link.back, &link.scheduler_back, &link.queue_back)
    };
    // If one specification applies to both directions, its errors are reported once.
    let is_checked = side == 1 && direction_spec.is_none() && link.forward.is_none();
    let spec = match direction_spec.as_ref().or(link.spec.as_ref()) {
        Some(text) if is_checked => check_spec(text.get_ref(), files).spec,
        Some(text) => spec(text, files, collector),
        None => None,
    };
    let spec = spec.unwrap_or_default();
    let scheduler = words.as_ref().and_then(|words| scheduler(words, files, collector));
    if let (None, Some(queue)) = (words, queues.first()) {
        let key = if side == 0 { "scheduler" } else { "scheduler_back" };
        let span = collector.first_line(queue.span());
        let help =
            format!("give the link a `{key}`, or put the queue's settings into its specification");
        collector.error(
            Code::Contradiction,
            &span,
            "queues belong to a scheduler",
            "there is none in this direction",
            &help,
        );
    }
    if let (Some(words), true) = (words, spec.pipe.scheduler.is_some()) {
        let span = words.span();
        let (message, label) = ("a direction of a link has one scheduler", "the second one");
        let help = "remove it here, or `sched` from the link's specification";
        collector.error(Code::Contradiction, &span, message, label, help);
    }
    let queues = by_class(queues, scheduler.as_ref(), files, collector);
    Direction { name, spec, scheduler, queues }
}

fn spec(text: &raw::Text, files: &dyn Files, collector: &mut Collector<'_>) -> Option<LinkSpec> {
    let checked = check_spec(text.get_ref(), files);
    collector.add_nested(text, &checked.diagnostics, 0);
    checked.spec
}

/// Parses the queues and sorts them by class.
fn by_class(
    queues: &[Spanned<raw::Queue>],
    scheduler: Option<&SchedulerConfig>,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Vec<FlowsetConfig> {
    let mut found: Vec<Option<FlowsetConfig>> = vec![None; queues.len()];
    for queue in queues {
        let class = &queue.get_ref().class;
        let number = *class.get_ref();
        let Some(slot) = usize::try_from(number).ok().and_then(|number| found.get_mut(number))
        else {
            let label = format!("0 to {}", queues.len().saturating_sub(1));
            let help = "classes of a scheduler's queues are counted from 0 without gaps; the last \
                        takes all classes beyond it";
            collector.error(
                Code::OutOfRange,
                &class.span(),
                format!("class {number} leaves a gap"),
                label,
                help,
            );
            continue;
        };
        if slot.is_some() {
            collector.error(
                Code::Repeated,
                &class.span(),
                format!("class {number} has two queues"),
                "the second one",
                "remove one of the two",
            );
            continue;
        }
        let config = match &queue.get_ref().spec {
            None => FlowsetConfig::default(),
            Some(text) => self::queue(text, scheduler, files, collector).unwrap_or_default(),
        };
        *slot = Some(config);
    }
    found.into_iter().flatten().collect()
}

fn scheduler(
    text: &raw::Text,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Option<SchedulerConfig> {
    if text.get_ref().trim().is_empty() {
        let help =
            "for example `scheduler = \"fq_codel target 5ms\"`; `weir algorithms` lists them";
        collector.error(
            Code::MissingValue,
            &text.span(),
            "the scheduler has no name",
            "expected a name",
            help,
        );
        return None;
    }
    let Command::ConfigSched(_, sched) = command(SCHED, text, files, collector)? else {
        collector.error(
            Code::BadValue,
            &text.span(),
            "this is no scheduler",
            "expected its name and settings",
            "",
        );
        return None;
    };
    if sched.link != LinkSpec::default() || sched.scheduler.parent.is_some() {
        let help = "the link's words, and those of its own queue, belong in `spec`";
        collector.error(
            Code::Contradiction,
            &text.span(),
            "a scheduler has no link of its own here",
            "more than a scheduler's settings",
            help,
        );
        return None;
    }
    Some(sched.scheduler)
}

fn queue(
    text: &raw::Text,
    scheduler: Option<&SchedulerConfig>,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Option<FlowsetConfig> {
    match command(QUEUE, text, files, collector)? {
        Command::ConfigQueue(_, queue) => {
            let (rate, priority) =
                (queue.flowset.rate.map_or(0, Rate::bps), queue.flowset.priority);
            let checked = scheduler.map(|s| check_flow(&s.discipline, rate, priority));
            if let Some(Err(misfit)) = checked {
                collector.error(
                    Code::Contradiction,
                    &text.span(),
                    misfit.to_string(),
                    "this queue does not suit the scheduler",
                    "",
                );
            }
            Some(queue.flowset)
        }
        _ => {
            collector.error(
                Code::BadValue,
                &text.span(),
                "this is no queue",
                "expected its settings",
                "",
            );
            None
        }
    }
}

/// Parses words that continue a command.
fn command(
    prefix: &str,
    text: &raw::Text,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Option<Command> {
    let line = prefix.to_owned() + &text.get_ref().replace(['\n', '\r'], " ");
    let Parsed { commands, diagnostics } = script::parse(&line, "", files);
    let failed = diagnostics.has_errors();
    collector.add_nested(text, &diagnostics.without_file(""), prefix.len());
    let mut commands = commands.into_iter().map(|spanned| spanned.command);
    match (commands.next(), commands.next()) {
        _ if failed => None,
        (Some(command), None) => Some(command),
        _ => {
            collector.error(
                Code::Unexpected,
                &text.span(),
                "this is not one algorithm's settings",
                "expected words of one line",
                "",
            );
            None
        }
    }
}

const SCHED: &str = "sched 1 config type ";
const QUEUE: &str = "queue 1 config sched 1 ";
