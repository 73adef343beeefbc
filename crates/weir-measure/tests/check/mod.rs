//! Checks results documents against their JSON Schema. The tests of several crates include this
//! file.
//!
//! The check supports the keywords of JSON Schema that the schema uses, and fails on every other
//! keyword. A crate that validates JSON Schema would add about seventy dependencies.

use serde_json::{Map, Value};

/// Fails if a document, or one of a list of documents, does not follow the schema of results.
pub(crate) fn assert_follows(schema: &Value, document: &Value) {
    if let Some(all) = document.as_array() {
        return all.iter().for_each(|each| assert_follows(schema, each));
    }
    assert_eq!(document["schema"], schema["title"], "{document:#}");
    let kind = document["kind"].as_str().expect("a document has a kind");
    let body = schema["$defs"].get(kind).unwrap_or_else(|| panic!("no kind {kind}"));
    if let Err(fault) = (Check { root: schema }).value(body, document, "") {
        panic!("a `{kind}` does not follow the schema: {fault}");
    }
}

/// Checks values against schemas. References point into `root`. Messages name a value by its path,
/// the parameter `at`.
struct Check<'a> {
    root: &'a Value,
}

impl Check<'_> {
    fn value(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Some(words) = schema.as_object() else {
            return if schema == false { Err(format!("{at} is not allowed")) } else { Ok(()) };
        };
        for (word, rule) in words {
            match word.as_str() {
                "$ref" => self.value(self.definition(rule), value, at)?,
                "type" if !has_type(rule, value) => {
                    return Err(format!("{at} is {value}, not of type {rule}"));
                }
                "const" if rule != value => return Err(format!("{at} is {value}, not {rule}")),
                "enum" if !rule.as_array().is_some_and(|all| all.contains(value)) => {
                    return Err(format!("{at} is {value}, none of {rule}"));
                }
                "minimum" if value.as_f64() < rule.as_f64() && value.is_number() => {
                    return Err(format!("{at} is {value}, less than {rule}"));
                }
                "maximum" if value.as_f64() > rule.as_f64() && value.is_number() => {
                    return Err(format!("{at} is {value}, more than {rule}"));
                }
                "minItems" | "maxItems" => {
                    let (items, bound) = (value.as_array().map(Vec::len), rule.as_u64());
                    let far = items.zip(bound).is_some_and(|(items, bound)| {
                        if word == "minItems" {
                            (items as u64) < bound
                        } else {
                            items as u64 > bound
                        }
                    });
                    if far {
                        return Err(format!("{at} has too many or too few items"));
                    }
                }
                "anyOf" | "oneOf" => self.any(rule, value, at)?,
                "allOf" => {
                    let mut all = rule.as_array().into_iter().flatten();
                    all.try_for_each(|each| self.value(each, value, at))?;
                }
                "items" => self.items(words, rule, value, at)?,
                "prefixItems" => {
                    let pairs = rule.as_array().into_iter().flatten().zip(value.as_array());
                    for (n, (each, items)) in pairs.enumerate() {
                        self.value(each, &items[n], &format!("{at}[{n}]"))?;
                    }
                }
                "properties"
                | "additionalProperties"
                | "required"
                | "patternProperties"
                | "type"
                | "const"
                | "enum"
                | "minimum"
                | "maximum"
                | "description"
                | "format"
                | "title"
                | "default"
                | "$schema" => {}
                other => return Err(format!("{at}: the test does not know `{other}`")),
            }
        }
        value.as_object().map_or(Ok(()), |object| self.object(words, object, at))
    }

    fn object(
        &self,
        words: &Map<String, Value>,
        object: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        for name in words.get("required").and_then(Value::as_array).into_iter().flatten() {
            if !object.contains_key(name.as_str().unwrap_or_default()) {
                return Err(format!("{at} has no {name}"));
            }
        }
        for (key, value) in object {
            let at = format!("{at}.{key}");
            // The schema's only pattern is `^\d+$`, for maps with numbers as keys.
            let numbered = key.bytes().all(|byte| byte.is_ascii_digit());
            let named = words.get("properties").and_then(|all| all.get(key));
            let pattern = words.get("patternProperties").and_then(Value::as_object);
            let pattern = pattern.and_then(|all| all.values().next()).filter(|_| numbered);
            if let Some(rule) = named.or(pattern).or(words.get("additionalProperties")) {
                self.value(rule, value, &at)?;
            }
        }
        Ok(())
    }

    fn items(
        &self,
        words: &Map<String, Value>,
        rule: &Value,
        value: &Value,
        at: &str,
    ) -> Result<(), String> {
        let fixed = words.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        let items = value.as_array().into_iter().flatten().enumerate().skip(fixed);
        for (n, item) in items {
            self.value(rule, item, &format!("{at}[{n}]"))?;
        }
        Ok(())
    }

    fn any(&self, rules: &Value, value: &Value, at: &str) -> Result<(), String> {
        let mut faults = Vec::new();
        for rule in rules.as_array().into_iter().flatten() {
            match self.value(rule, value, at) {
                Ok(()) => return Ok(()),
                Err(fault) => faults.push(fault),
            }
        }
        Err(faults.join("; "))
    }

    fn definition(&self, reference: &Value) -> &Value {
        let path = reference.as_str().expect("a reference is text");
        self.root.pointer(path.trim_start_matches('#')).expect("a reference has a definition")
    }
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is))
}
