//! Tests the effects of commands on a configuration, and the reasons to refuse them.

use std::sync::Arc;

use weir_core::units::Nanos;

use super::*;
use crate::command::{
    Command, NetConfigCommand, NetConfigMode, Numbers, ObjectKind, RuleSelection, SetCommand,
    TableCommand,
};
use crate::files::NoFiles;
use crate::rule::{Address, Clause, RuleAction, Span16, Target, Term, Test};
use crate::spec::parse_spec;
use crate::table::{TableKey, TableKind};

fn link(text: &str) -> LinkSpec {
    parse_spec(text, &NoFiles).unwrap()
}

fn pipe(number: u16, text: &str) -> Command {
    Command::ConfigPipe(number, Box::new(link(text)))
}

fn queue(number: u16, scheduler: u16, weight: u32) -> Command {
    let flowset = weir_core::config::FlowsetConfig { weight, ..Default::default() };
    Command::ConfigQueue(number, Box::new(QueueSpec { scheduler, flowset }))
}

fn rule(number: u16, set: u8, action: RuleAction) -> Command {
    let rule = Rule {
        number,
        set,
        probability: None,
        action,
        tag: None,
        untag: None,
        log: false,
        body: Vec::new(),
        comment: None,
    };
    Command::Add(Box::new(rule))
}

fn one(number: u16) -> Vec<Numbers> {
    vec![Numbers { first: number, last: number }]
}

fn numbers(ruleset: &Ruleset) -> Vec<(u16, u8)> {
    ruleset.rules.iter().map(|e| (e.rule.number, e.rule.set)).collect()
}

fn done(ruleset: &mut Ruleset, commands: &[Command]) {
    for command in commands {
        ruleset.apply(command).unwrap();
    }
}

fn table(command: TableCommand) -> Command {
    Command::Table("1".into(), command)
}

fn prefix(address: u32, len: u8) -> TableKey {
    TableKey::V4 { address, len }
}

fn netconfig(spec_in: &str, expires_s: Option<u32>) -> Command {
    let ports = vec![Span16 { first: 80, last: 80 }];
    let (inbound, outbound) = (link(spec_in), link("1M"));
    let config = NetConfig {
        mode: NetConfigMode::Client,
        ports,
        peers: vec![],
        inbound,
        outbound,
        expires_s,
    };
    Command::NetConfig(NetConfigCommand::Config(Box::new(config)))
}

#[test]
fn numbers_are_assigned_in_steps_after_the_last_rule() {
    let mut r = Ruleset::default();
    done(
        &mut r,
        &[
            rule(0, 0, RuleAction::Allow),
            rule(0, 3, RuleAction::Deny),
            rule(65_400, 0, RuleAction::Count),
        ],
    );
    done(
        &mut r,
        &[
            rule(0, 0, RuleAction::Allow),
            rule(0, 0, RuleAction::Deny),
            rule(150, 0, RuleAction::Count),
        ],
    );
    let expected = [(100, 0), (150, 0), (200, 3), (65_400, 0), (65_500, 0), (65_500, 0)];
    assert_eq!(numbers(&r), expected);
    assert_eq!(
        r.rules[5].rule.action,
        RuleAction::Deny,
        "rules with the same number are in the order of age"
    );
    assert_eq!(r.apply(&rule(65_535, 0, RuleAction::Allow)), Err(ApplyError::DefaultRule));
}

#[test]
fn rules_are_deleted_by_number_or_set_and_flush_keeps_set_31() {
    let mut r = Ruleset::default();
    let adds: Vec<Command> = [(100, 0), (100, 1), (200, 1), (300, 31)]
        .iter()
        .map(|&(n, s)| rule(n, s, RuleAction::Allow))
        .collect();
    done(&mut r, &adds);
    let delete = |which, set| Command::DeleteRules(RuleSelection::Numbers(which, set));
    assert_eq!(r.apply(&delete(one(150), None)), Err(ApplyError::NoRule { number: 150 }));
    assert_eq!(r.apply(&delete(one(100), Some(2))), Err(ApplyError::NoRule { number: 100 }));
    done(&mut r, &[delete(one(100), Some(1))]);
    assert_eq!(numbers(&r), [(100, 0), (200, 1), (300, 31)]);
    done(&mut r, &[Command::FlushRules]);
    assert_eq!(numbers(&r), [(300, 31)]);
    assert_eq!(r.apply(&Command::FlushRules).unwrap().effect, Effect::Nothing);
    done(&mut r, &[Command::DeleteRules(RuleSelection::Set(31))]);
    assert!(r.rules.is_empty());
}

#[test]
fn sets_can_be_moved_swapped_and_switched_but_set_31_stays_on() {
    let mut r = Ruleset::default();
    done(&mut r, &[rule(100, 1, RuleAction::Allow), rule(200, 2, RuleAction::Allow)]);
    done(
        &mut r,
        &[
            Command::Set(SetCommand::Swap(1, 2)),
            Command::Set(SetCommand::MoveRule { rule: 200, to: 7 }),
        ],
    );
    assert_eq!(numbers(&r), [(100, 2), (200, 7)]);
    done(&mut r, &[Command::Set(SetCommand::Switch { enable: 0, disable: 0b1010_0000 })]);
    assert!(!r.is_enabled(7) && !r.is_enabled(5) && r.is_enabled(2));
    let off = Command::Set(SetCommand::Switch { enable: 0, disable: 1 << 31 });
    assert_eq!(r.apply(&off), Err(ApplyError::KeptSet));
}

#[test]
fn a_pipe_and_a_scheduler_with_one_number_are_one_link() {
    let mut r = Ruleset::default();
    let sched = |text: &str| {
        Command::ConfigSched(1, Box::new(SchedSpec { link: link(text), ..SchedSpec::default() }))
    };
    done(&mut r, &[pipe(1, "bw 1M delay 5ms mask src-ip 0xff"), sched("")]);
    assert!(r.pipes.is_empty());
    assert_eq!(r.scheds[&1].link, link("bw 1M delay 5ms"));
    assert_eq!(r.scheds[&1].scheduler.mask.src_ip, 0xff);
    done(&mut r, &[pipe(1, "bw 2M")]);
    assert_eq!((r.pipes.len(), &r.scheds[&1].link), (0, &link("bw 2M")));
    assert_eq!(r.scheds[&1].scheduler.mask.src_ip, 0xff);
}

#[test]
fn deleting_a_used_object_gives_warnings_that_name_its_users() {
    let mut r = Ruleset::default();
    done(
        &mut r,
        &[pipe(1, "1M"), queue(3, 1, 5), rule(100, 0, RuleAction::Pipe(Target::Number(1)))],
    );
    let outcome = r.apply(&Command::DeleteObjects(ObjectKind::Pipe, one(1))).unwrap();
    let expected = [
        Warning::NoScheduler { queue: 3, scheduler: 1 },
        Warning::NoTarget { rule: 100, kind: ObjectKind::Pipe, number: 1 },
    ];
    assert_eq!(outcome.warnings, expected);
    let missing = r.apply(&Command::DeleteObjects(ObjectKind::Pipe, one(1)));
    assert_eq!(missing, Err(ApplyError::NoObject { kind: ObjectKind::Pipe, number: 1 }));
}

#[test]
fn a_script_is_applied_completely_or_not_at_all() {
    let mut r = Ruleset::default();
    done(&mut r, &[pipe(1, "1M")]);
    let before = r.clone();
    let commands = [
        pipe(2, "2M"),
        rule(100, 0, RuleAction::Allow),
        Command::DeleteObjects(ObjectKind::Queue, one(9)),
    ];
    let spanned: Vec<_> = (1..)
        .zip(commands)
        .map(|(line, command)| crate::command::Spanned { command, span: 0..0, line })
        .collect();
    let error = r.apply_all(&spanned).unwrap_err();
    assert_eq!((error.index, error.line), (2, 3));
    assert_eq!(r, before);
    assert_eq!(r.apply_all(&spanned[..2]).unwrap().len(), 2);
    assert_eq!((r.pipes.len(), r.rules.len()), (2, 1));
}

#[test]
fn the_first_entry_creates_a_numbered_table_but_no_named_table() {
    let mut r = Ruleset::default();
    let add = TableCommand::Add {
        entries: vec![(prefix(0x0a00_0000, 8), 7)],
        atomic: false,
        update: false,
    };
    let outcome = r.apply(&table(add.clone())).unwrap();
    assert_eq!(outcome.warnings, [Warning::TableMade { name: "1".into() }]);
    assert_eq!(
        r.apply(&Command::Table("x".into(), add)),
        Err(ApplyError::NoTable { name: "x".into() })
    );
    assert_eq!(r.tables["1"].lookup(&prefix(0x0a01_0203, 32)), Some((prefix(0x0a00_0000, 8), 7)));
    assert_eq!(r.tables["1"].lookup(&prefix(0x0b01_0203, 32)), None);
}

#[test]
fn atomic_additions_are_all_or_nothing_and_limits_hold() {
    let mut r = Ruleset::default();
    let add = |entries: &[(u32, u32)], atomic, update| {
        table(TableCommand::Add {
            entries: entries.iter().map(|&(a, v)| (prefix(a, 32), v)).collect(),
            atomic,
            update,
        })
    };
    done(
        &mut r,
        &[table(TableCommand::Create {
            kind: TableKind::Address,
            limit: Some(3),
            missing_only: false,
        })],
    );
    done(&mut r, &[add(&[(1, 1), (2, 2)], true, false)]);
    let exists = ApplyError::EntryExists { name: "1".into(), key: "0.0.0.2/32".into() };
    assert_eq!(r.apply(&add(&[(3, 3), (2, 9)], true, false)), Err(exists.clone()));
    assert_eq!(r.apply(&add(&[(2, 9)], false, false)), Err(exists));
    assert_eq!(r.tables["1"].entries.len(), 2);
    done(&mut r, &[add(&[(2, 9)], false, true)]);
    assert_eq!(r.tables["1"].entries[&prefix(2, 32)], 9);
    let kept = r.apply(&add(&[(3, 3), (2, 2)], false, false)).unwrap();
    assert_eq!(kept.warnings, [Warning::EntriesKept { name: "1".into(), count: 1 }]);
    let full = r.apply(&add(&[(4, 4)], false, false));
    assert_eq!(full, Err(ApplyError::TableFull { name: "1".into(), limit: 3, wanted: 4 }));
}

#[test]
fn locked_tables_do_not_change_and_used_ones_are_not_destroyed() {
    let mut r = Ruleset::default();
    done(
        &mut r,
        &[table(TableCommand::Create {
            kind: TableKind::Address,
            limit: None,
            missing_only: false,
        })],
    );
    done(&mut r, &[table(TableCommand::Lock(true))]);
    assert_eq!(
        r.apply(&table(TableCommand::Flush)),
        Err(ApplyError::TableLocked { name: "1".into() })
    );
    done(&mut r, &[table(TableCommand::Lock(false)), rule(100, 0, RuleAction::Allow)]);
    let user = crate::rule::TableMatch { table: "1".into(), value: None };
    let test = Test::SrcAddress(vec![Address::Table(user)]);
    let mut using = Rule::clone(&r.rules[0].rule);
    using.body = vec![Clause(vec![Term { not: false, test }])];
    done(&mut r, &[Command::Add(Box::new(Rule { number: 200, ..using }))]);
    assert_eq!(
        r.apply(&table(TableCommand::Destroy)),
        Err(ApplyError::TableInUse { name: "1".into(), rule: 200 })
    );
    let all = r.apply(&Command::AllTables(crate::command::AllTablesCommand::Destroy)).unwrap();
    assert_eq!(all.effect, Effect::Nothing);
    assert_eq!(all.warnings.len(), 1);
}

#[test]
fn a_repeated_netconfig_changes_only_its_pipes() {
    let mut r = Ruleset::default();
    done(&mut r, &[rule(0, 0, RuleAction::Allow), netconfig("4M/20ms", None)]);
    assert_eq!(numbers(&r), [(1, 31), (1, 31), (100, 0)]);
    let before = r.clone();
    done(&mut r, &[netconfig("2M/20ms", None)]);
    let changes = Changes::between(&before, &r);
    assert!(!changes.rules);
    assert!(matches!(
        &changes.engine[..],
        [EngineChange::SetLink { id: FIRST_NETCONFIG_PIPE, .. }]
    ));
    done(
        &mut r,
        &[
            rule(0, 0, RuleAction::Deny),
            Command::FlushRules,
            Command::FlushObjects(ObjectKind::Pipe),
        ],
    );
    assert_eq!((numbers(&r), r.pipes.len()), (vec![(1, 31), (1, 31)], 2));
    assert_eq!(
        r.apply(&pipe(FIRST_NETCONFIG_PIPE, "1M")),
        Err(ApplyError::Reserved { number: FIRST_NETCONFIG_PIPE })
    );
    done(&mut r, &[Command::DeleteRules(RuleSelection::Set(31))]);
    assert_eq!(r.rules.len(), 2, "only netconfig takes its rules away");
    done(
        &mut r,
        &[Command::NetConfig(NetConfigCommand::Delete(
            NetConfigMode::Client,
            vec![Span16 { first: 80, last: 80 }],
        ))],
    );
    assert_eq!((r.rules.len(), r.pipes.len(), r.netconfigs.len()), (0, 0, 0));
}

#[test]
fn netconfig_links_expire_after_their_lifetime() {
    let mut r = Ruleset::default();
    done(&mut r, &[netconfig("4M", Some(60))]);
    assert_eq!((r.expire(1000), r.next_expiry_s()), (0, Some(1060)));
    assert_eq!(r.expire(1059), 0);
    done(&mut r, &[netconfig("2M", Some(60))]);
    assert_eq!(
        (r.expire(1059), r.expire(1118)),
        (0, 0),
        "a repeated command restarts the lifetime"
    );
    assert_eq!(r.expire(1119), 1);
    assert!(r.pipes.is_empty() && r.rules.is_empty());
}

#[test]
fn rules_of_netconfig_do_not_count_when_numbers_are_assigned() {
    let mut r = Ruleset::default();
    done(&mut r, &[netconfig("4M", None), rule(0, 0, RuleAction::Allow)]);
    assert_eq!(numbers(&r), [(1, 31), (1, 31), (100, 0)]);
}

#[test]
fn changes_touch_only_what_differs() {
    let mut r = Ruleset::default();
    done(
        &mut r,
        &[pipe(1, "1M"), pipe(2, "2M"), rule(100, 0, RuleAction::Pipe(Target::Number(1)))],
    );
    let before = r.clone();
    done(&mut r, &[pipe(1, "1M")]);
    assert!(Changes::between(&before, &r).is_empty());
    done(&mut r, &[pipe(2, "3M")]);
    let changes = Changes::between(&before, &r);
    assert!(matches!(&changes.engine[..], [EngineChange::SetLink { id: 2, .. }]), "{changes:?}");
    assert!(!changes.rules && changes.tables.is_empty());
    done(&mut r, &[Command::DeleteObjects(ObjectKind::Pipe, one(1)), Command::OnePass(false)]);
    let changes = Changes::between(&before, &r);
    assert_eq!(changes.engine[0], EngineChange::DeleteLink(1));
    assert!(changes.rules);
}

#[test]
fn changes_bring_an_engine_from_one_configuration_to_the_next() {
    let mut r = Ruleset::default();
    let empty = r.clone();
    done(&mut r, &[pipe(1, "1M"), queue(1, 1, 10)]);
    let mut emulator = weir_core::Emulator::new(1, weir_core::Limits::default());
    let apply = |emulator: &mut weir_core::Emulator, old: &Ruleset, new: &Ruleset| {
        for change in &Changes::between(old, new).engine {
            change.apply(Nanos::ZERO, emulator);
        }
    };
    apply(&mut emulator, &empty, &r);
    assert!(emulator.stats(1).is_some());
    apply(&mut emulator, &r, &empty);
    assert!(emulator.stats(1).is_none());
}

#[test]
fn copies_share_their_unchanged_parts() {
    let mut r = Ruleset::default();
    done(&mut r, &[pipe(1, "1M"), pipe(2, "2M")]);
    let before = r.clone();
    done(&mut r, &[pipe(1, "5M")]);
    assert!(Arc::ptr_eq(&before.pipes[&2], &r.pipes[&2]));
    assert!(Arc::ptr_eq(&before.rules, &r.rules));
}

#[test]
fn there_are_at_most_as_many_rules_as_numbers() {
    let mut r = Ruleset::default();
    let parsed = crate::script::parse("add 1 allow ip from any to any", "rules", &NoFiles);
    for _ in 0..super::MAX_RULES {
        r.apply(&parsed.commands[0].command).unwrap();
    }
    let error = r.apply(&parsed.commands[0].command).unwrap_err();
    assert_eq!(error, ApplyError::TooManyRules);
    let flush = crate::script::parse("delete 1", "rules", &NoFiles);
    r.apply(&flush.commands[0].command).unwrap();
    r.apply(&parsed.commands[0].command).unwrap();
}

#[test]
fn a_setting_that_the_scheduler_ignores_gives_a_warning() {
    let warnings = |text: &str| -> Vec<String> {
        let mut ruleset = Ruleset::default();
        let parsed = crate::script::parse(text, "rules", &NoFiles);
        let outcomes = parsed.commands.iter().map(|c| ruleset.apply(&c.command).unwrap());
        outcomes.flat_map(|outcome| outcome.warnings).map(|warning| warning.to_string()).collect()
    };
    let of_htb =
        "sched 1 config type htb\nqueue 1 config sched 1 rate 1M ceil 2M burst 3KB pri 1 weight 2";
    assert_eq!(warnings(of_htb), Vec::<String>::new());
    let of_rr =
        warnings("sched 1 config type drr\nqueue 1 config sched 1 ceil 2M pri 1 deadline 1");
    let expected = [
        "queue 1: `pri` has no effect under a scheduler of type drr; it looks at `weight`",
        "queue 1: `ceil` has no effect under a scheduler of type drr",
        "queue 1: `deadline` has no effect under a scheduler of type drr",
    ];
    assert_eq!(of_rr, expected);
}

#[test]
fn nested_schedulers_form_no_circle_and_a_used_parent_is_not_deleted() {
    let mut ruleset = Ruleset::default();
    let mut run = |line: &str| -> Result<Vec<String>, String> {
        let parsed = crate::script::parse(line, "rules", &NoFiles);
        let outcome =
            ruleset.apply(&parsed.commands[0].command).map_err(|error| error.to_string())?;
        Ok(outcome.warnings.iter().map(ToString::to_string).collect())
    };
    assert_eq!(
        run("sched 2 config parent 1 pri 3").unwrap(),
        ["sched 2 is a flow of pipe or sched 1, which is not configured: its packets are dropped"]
    );
    assert_eq!(
        run("sched 1 config bw 1M").unwrap(),
        ["sched 2: `pri` has no effect under a scheduler of type wf2q+; it looks at `weight`"]
    );
    assert_eq!(
        run("sched 1 config parent 2").unwrap_err(),
        "sched 1 cannot be a flow of 2: it would be a flow of itself"
    );
    assert_eq!(
        run("sched 2 config parent 2").unwrap_err(),
        "sched 2 cannot be a flow of 2: it would be a flow of itself"
    );
    assert_eq!(
        run("sched delete 1").unwrap_err(),
        "sched 2 is a flow of 1; delete it too: `sched delete 1 2`"
    );
    for number in 3..=8 {
        assert_eq!(run(&format!("sched {number} config parent {}", number - 1)), Ok(vec![]));
    }
    assert!(run("sched 9 config parent 8").unwrap_err().contains("at most 8"));
    assert_eq!(
        run("sched 9 config parent 10"),
        Ok(vec![
            "sched 9 is a flow of pipe or sched 10, which is not configured: its packets are \
                 dropped"
                .to_owned()
        ])
    );
    assert!(run("sched 10 config parent 7").unwrap_err().contains("at most 8"));
    assert_eq!(run("sched delete 1-8"), Ok(vec![]));
}

#[test]
fn a_rule_for_a_missing_pipe_gives_a_warning() {
    let mut r = Ruleset::default();
    let to_pipe = |number| rule(100, 0, RuleAction::Pipe(Target::Number(number)));
    let outcome = r.apply(&to_pipe(9)).unwrap();
    let missing = Warning::NoTarget { rule: 100, kind: ObjectKind::Pipe, number: 9 };
    assert_eq!(outcome.warnings, [missing]);
    done(&mut r, &[pipe(9, "1M")]);
    assert_eq!(r.apply(&to_pipe(9)).unwrap().warnings, []);
}

#[test]
fn a_script_may_configure_a_pipe_after_the_rule_that_names_it() {
    let spanned = |commands: Vec<Command>| -> Vec<_> {
        (1..)
            .zip(commands)
            .map(|(line, command)| crate::command::Spanned { command, span: 0..0, line })
            .collect()
    };
    let first = rule(100, 0, RuleAction::Pipe(Target::Number(9)));
    let other = rule(200, 0, RuleAction::Queue(Target::Number(3)));
    let outcomes =
        Ruleset::default().apply_all(&spanned(vec![first, other, pipe(9, "1M")])).unwrap();
    let warnings: Vec<_> = outcomes.into_iter().flat_map(|outcome| outcome.warnings).collect();
    assert_eq!(warnings, [Warning::NoTarget { rule: 200, kind: ObjectKind::Queue, number: 3 }]);
}
