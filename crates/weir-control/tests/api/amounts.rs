//! Requests that would take too much memory or time: each is refused, or answered in part with a
//! notice. The configuration does not change.

use weir_control::api::CommandRequest;
use weir_rules::show::Answer;

use super::{Lab, send};

/// Sends a script that the server must refuse without effect, and returns the error.
fn refusal(lab: &Lab, script: String) -> String {
    let before = lab.client().configuration().unwrap();
    let request = CommandRequest { script, ..CommandRequest::default() };
    let error = match lab.client().commands(&request) {
        Ok(reply) => {
            assert!(!reply.applied, "{} outcomes", reply.outcomes.len());
            reply.diagnostics[0].message.clone()
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(lab.client().configuration().unwrap(), before);
    assert!(send(&lab.client(), "pipe 9 config bw 1Mbit/s").applied, "small changes are possible");
    error
}

#[test]
fn scripts_have_a_maximum_length_and_number_of_commands() {
    let lab = Lab::new();
    let long = refusal(&lab, "# comment".repeat((16 << 20) / 9 + 1));
    assert!(long.contains("16 MiB"), "{long}");
    let many = refusal(&lab, "zero\n".repeat(500_001));
    assert!(many.contains("500000 commands"), "{many}");
}

#[test]
fn a_configuration_has_a_maximum_length() {
    let lab = Lab::new();
    // Nine rules, each with a comment of almost a million characters.
    let rules = |first: usize| -> String {
        let one =
            |n: usize| format!("add {n} allow ip from any to any // {}\n", "c".repeat(999_000));
        (first..first + 9).map(one).collect()
    };
    assert!(send(&lab.client(), &rules(1)).applied);
    let error = refusal(&lab, rules(11));
    assert!(error.contains("16 MiB") && error.contains("nothing was changed"), "{error}");
}

#[test]
fn answers_end_after_many_rows_and_say_so() {
    let lab = Lab::new();
    let entries: String = (0..30_000).map(|n| format!(" 10.{}.{}.1 0", n >> 8, n & 255)).collect();
    assert!(send(&lab.client(), &format!("table t create\ntable t add{entries}\n")).applied);
    let reply = send(&lab.client(), &"table t list\n".repeat(10));
    let answered = reply.outcomes.iter().filter(|outcome| outcome.answer.is_some()).count();
    assert_eq!(answered, 7, "the answer that exceeds 200,000 rows is the last one");
    assert!(matches!(&reply.outcomes[6].answer, Some(Answer::Tables(tables))
        if tables[0].entries.len() == 30_000));
    assert!(reply.notices[0].starts_with("3 queries are not answered"), "{:?}", reply.notices);
}
