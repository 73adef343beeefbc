//! Bodies of `POST /v1/commands`: no body makes the daemon panic, a check changes nothing, and an
//! accepted configuration is the same after a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use weir_control::api::CommandRequest;
use weir_control::owner::{Onto, Owner, Resumed};
use weir_control::plane::NoPlane;
use weir_control::store::Store;
use weir_rules::ruleset::Ruleset;
use weir_rules::script;

/// The bytes are a body in JSON, or a script and the content of the file `f`, separated by a zero.
pub fn run(data: &[u8]) {
    let Some(request) = request(data) else { return };
    let files = &request.files;
    let mut ruleset = Ruleset::default();
    let parsed = script::parse(&request.script, "script", files);
    if !parsed.diagnostics.has_errors() && ruleset.apply_all(&parsed.commands).is_ok() {
        resumes(&ruleset, files);
    }
    let request = CommandRequest { check_only: true, ..request };
    let owner = owner();
    let before = owner.current().revision;
    let answer = owner.submit(owner.prepare(&request), Onto::Empty).expect("only one waits");
    let reply = answer.wait().expect("a check writes nothing");
    assert!(!reply.applied, "a check is not applied: {reply:?}");
    assert_eq!(owner.current().revision, before);
    // The reply goes to a client as JSON.
    serde_json::to_string(&reply).expect("every reply can be written");
}

fn request(data: &[u8]) -> Option<CommandRequest> {
    if let Ok(request) = serde_json::from_slice(data) {
        return Some(request);
    }
    let (script, content) = std::str::from_utf8(data).ok()?.split_once('\0')?;
    let files = BTreeMap::from([("f".to_owned(), content.to_owned())]);
    Some(CommandRequest { script: script.to_owned(), files, ..CommandRequest::default() })
}

/// Checks that the saved form of a configuration creates that configuration.
fn resumes(ruleset: &Ruleset, files: &BTreeMap<String, String>) {
    let saved = ruleset.script();
    let parsed = script::parse(&saved, "saved", files);
    assert!(!parsed.diagnostics.has_errors(), "{saved}\n{}", parsed.diagnostics.render(false));
    let mut again = Ruleset::default();
    if let Err(error) = again.apply_all(&parsed.commands) {
        panic!("{saved}\n{error:?}");
    }
    assert_eq!(again.script(), saved);
}

/// A daemon's configuration. All inputs share its directory, because no input saves to it.
fn owner() -> &'static Owner {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    OWNER.get_or_init(|| {
        let directory = std::env::temp_dir().join(format!("weir-fuzz-api-{}", std::process::id()));
        let store = Store::open(&directory).expect("a temporary directory");
        let resumed = Resumed::new(store).expect("an empty directory");
        resumed.start(Arc::new(NoPlane)).expect("a thread")
    })
}
