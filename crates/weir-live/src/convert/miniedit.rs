//! Converts networks of MiniEdit, Mininet's editor: JSON files with hosts, switches and links.

use serde_json::{Map, Value};

use super::error::ConvertError;
use super::lab::{Lab, LabLink, LabNode};
use super::script::{Setting, Settings};

pub(super) fn convert(text: &str) -> Result<Lab, ConvertError> {
    let file: Value = serde_json::from_str(text)
        .map_err(|error| ConvertError::Syntax { line: error.line(), reason: error.to_string() })?;
    if file.get("hosts").is_none() && file.get("switches").is_none() {
        let reason = "the file has neither `hosts` nor `switches`: is it one of MiniEdit?";
        return Err(ConvertError::Missing(reason.to_owned()));
    }
    let mut lab = Lab::default();
    lab.notes.push(
        "MiniEdit's file has no duration: set `duration`. Switches and their controllers are \
         routers, which forward in no time."
            .to_owned(),
    );
    for controller in list(&file, "controllers") {
        lab.notes.push(format!("left out: controller {}", shown(&controller["opts"])));
    }
    for host in list(&file, "hosts") {
        lab.add_node(node(host, false))?;
    }
    for switch in list(&file, "switches") {
        lab.add_node(node(switch, true))?;
    }
    for link in list(&file, "links") {
        lab.add_link(self::link(link))?;
    }
    if let Some(keys) = file.as_object() {
        for key in keys.keys().filter(|key| !KNOWN.contains(&&***key)) {
            lab.notes.push(format!("left out: {key}"));
        }
    }
    Ok(lab)
}

fn list<'a>(file: &'a Value, key: &str) -> &'a [Value] {
    file.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn node(value: &Value, is_router: bool) -> LabNode {
    let nothing = Map::new();
    let options = value["opts"].as_object().unwrap_or(&nothing);
    let text = |key: &str| options.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut node = LabNode { name: text("hostname").to_owned(), is_router, ..LabNode::default() };
    if !is_router {
        node.command = text("startCommand").to_owned();
    }
    let used: &[&str] = if is_router { &USED_OF_SWITCHES } else { &USED_OF_HOSTS };
    for (key, value) in options {
        let is_default = key == "sched" && value == "host";
        if !used.contains(&&**key) && !is_empty(value) && !is_default {
            node.notes.push(format!("left out: {key}: {}", shown(value)));
        }
    }
    node
}

fn link(value: &Value) -> LabLink {
    let end = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut settings = Settings::default();
    for (key, value) in value["opts"].as_object().into_iter().flatten() {
        if is_empty(value) {
            continue;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        settings.add(key, &Setting::of_text(&text));
    }
    let (spec, notes) = settings.into_spec();
    LabLink { between: [end("src"), end("dest")], spec, notes, ..LabLink::default() }
}

/// Whether MiniEdit writes this value for a field that the user left empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Keys of the file that are used, or that concern only the editor.
const KNOWN: [&str; 6] = ["application", "controllers", "hosts", "links", "switches", "version"];
/// Options of a host that are not listed as left out.
const USED_OF_HOSTS: [&str; 3] = ["hostname", "nodeNum", "startCommand"];
/// Options of a switch that are not listed as left out.
const USED_OF_SWITCHES: [&str; 2] = ["hostname", "nodeNum"];

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../examples/convert/network.mn");

    #[test]
    fn a_network_becomes_a_scenario_and_nothing_is_dropped_silently() {
        let text = convert(EXAMPLE).unwrap().to_toml("net.mn");
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(table["node"][0]["command"].as_str(), Some("iperf -s"));
        assert_eq!(table["node"][2]["kind"].as_str(), Some("router"));
        let spec = "bw 10Mbit/s delay 5ms jitter 1ms reorder loss 1% queue 50";
        assert_eq!(table["link"][0]["spec"].as_str(), Some(spec), "{text}");
        assert_eq!(table["link"][1]["spec"].as_str(), Some("bw 2.5Mbit/s"), "{text}");
        for part in [
            "# left out: controller {\"hostname\":\"c0\"",
            "# left out: ip: 10.0.0.9",
            "# left out: cores: 0",
            "# left out: speedup 0",
            "# left out: switchType: legacySwitch",
            "# a link between h2 and h9 is left out",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn other_json_is_refused_and_values_of_any_type_are_read() {
        assert!(matches!(convert("{"), Err(ConvertError::Syntax { line: 1, .. })));
        assert!(matches!(convert("{}"), Err(ConvertError::Missing(_))));
        // The parser bounds the nesting.
        assert!(convert(&"{\"a\":".repeat(100_000)).is_err());
        for text in [
            r#"{"hosts": 7}"#,
            r#"{"hosts": [7, {"opts": []}, {"opts": {"hostname": {}}}], "links": [{"opts": 1}]}"#,
        ] {
            let _ = convert(text).unwrap().to_toml("x");
        }
        for (sched, is_noted) in [("host", false), ("cfs", true)] {
            let text = format!(
                r#"{{"hosts": [{{"opts": {{"hostname": "a", "sched": "{sched}"}}}}], "links": []}}"#
            );
            let text = convert(&text).unwrap().to_toml("x");
            assert_eq!(text.contains("# left out: sched: cfs"), is_noted, "{text}");
        }
    }
}
