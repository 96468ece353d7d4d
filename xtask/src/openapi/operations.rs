//! Compares paths, operations, parameters, bodies and responses of two documents.

use serde_json::{Map, Value};

use super::schema::{Comparison, Direction, members};

const METHODS: &[&str] = &[
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// Lists the elements that the new document lost or narrowed, one sentence each.
pub fn losses(old: &Value, new: &Value) -> Vec<String> {
    let mut walk = Walk {
        old,
        new,
        losses: Vec::new(),
    };
    for (path, old_item) in members(&old["paths"]) {
        let Some(new_item) = new["paths"].get(path) else {
            walk.losses.push(format!("{path}: the path is gone"));
            continue;
        };
        for method in METHODS {
            let place = format!("{} {path}", method.to_uppercase());
            match (old_item.get(method), new_item.get(method)) {
                (Some(_), None) => walk.losses.push(format!("{place}: the method is gone")),
                (Some(old_operation), Some(new_operation)) => {
                    walk.parameters(&place, (old_item, old_operation), (new_item, new_operation));
                    walk.request(
                        &place,
                        old_operation.get("requestBody"),
                        new_operation.get("requestBody"),
                    );
                    walk.responses(&place, &old_operation["responses"], &new_operation["responses"]);
                }
                _ => {}
            }
        }
    }
    walk.losses
}

struct Walk<'a> {
    old: &'a Value,
    new: &'a Value,
    losses: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Compares the parameters of a path item and its operation.
    fn parameters(&mut self, place: &str, old: (&'a Value, &'a Value), new: (&'a Value, &'a Value)) {
        let old_parameters = parameters(self.old, old);
        let new_parameters = parameters(self.new, new);
        for (key, old_parameter) in &old_parameters {
            let place = format!("{place}: {key}");
            match new_parameters.iter().find(|(other, _)| other == key) {
                None => self.losses.push(format!("{place} is gone")),
                Some((_, parameter)) => {
                    self.newly_required(&place, old_parameter, parameter);
                    self.schema(
                        &place,
                        Direction::Request,
                        old_parameter.get("schema"),
                        parameter.get("schema"),
                    );
                }
            }
        }
        for (key, parameter) in &new_parameters {
            let known = old_parameters.iter().any(|(other, _)| other == key);
            if !known && is_true(parameter, "required") {
                self.losses.push(format!("{place}: {key} is new and required"));
            }
        }
    }

    fn request(&mut self, place: &str, old: Option<&'a Value>, new: Option<&'a Value>) {
        let place = format!("{place}: request");
        match (old, new) {
            (Some(_), None) => self.losses.push(format!("{place} body is gone")),
            (None, Some(body)) if is_true(resolve(self.new, body), "required") => {
                self.losses.push(format!("{place} body is new and required"));
            }
            (Some(old), Some(new)) => {
                let (old, new) = (resolve(self.old, old), resolve(self.new, new));
                self.newly_required(&format!("{place} body"), old, new);
                self.contents(&place, Direction::Request, old, new);
            }
            (None, _) => {}
        }
    }

    fn responses(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        for (status, old_response) in members(old) {
            let place = format!("{place}: response {status}");
            let Some(new_response) = new.get(status) else {
                self.losses.push(format!("{place} is gone"));
                continue;
            };
            let (old_response, new_response) =
                (resolve(self.old, old_response), resolve(self.new, new_response));
            self.contents(&place, Direction::Response, old_response, new_response);
            for (name, old_header) in members(&old_response["headers"]) {
                let place = format!("{place} header {name}");
                match new_response["headers"].get(name) {
                    None => self.losses.push(format!("{place} is gone")),
                    Some(header) => {
                        let (old_header, header) = (resolve(self.old, old_header), resolve(self.new, header));
                        self.schema(
                            &place,
                            Direction::Response,
                            old_header.get("schema"),
                            header.get("schema"),
                        );
                    }
                }
            }
        }
    }

    /// Compares the bodies of each media type. `itemSchema` describes the events of a stream.
    fn contents(&mut self, place: &str, direction: Direction, old: &'a Value, new: &'a Value) {
        for (media_type, old_content) in members(&old["content"]) {
            let place = format!("{place} {media_type}");
            let Some(new_content) = new["content"].get(media_type) else {
                self.losses.push(format!("{place} is gone"));
                continue;
            };
            for key in ["schema", "itemSchema"] {
                self.schema(&place, direction, old_content.get(key), new_content.get(key));
            }
        }
    }

    fn schema(&mut self, place: &str, direction: Direction, old: Option<&'a Value>, new: Option<&'a Value>) {
        let comparison = Comparison::new(self.old, self.new, direction);
        self.losses.extend(comparison.losses(
            place,
            old.unwrap_or(&Value::Null),
            new.unwrap_or(&Value::Null),
        ));
    }

    fn newly_required(&mut self, place: &str, old: &Value, new: &Value) {
        if !is_true(old, "required") && is_true(new, "required") {
            self.losses.push(format!("{place} is newly required"));
        }
    }
}

/// Collects the parameters by location and name (`query parameter limit`). Parameters of the
/// operation override those of the path.
fn parameters<'a>(
    document: &'a Value,
    (item, operation): (&'a Value, &'a Value),
) -> Vec<(String, &'a Value)> {
    let mut found: Map<String, Value> = Map::new();
    let mut parameters: Vec<(String, &Value)> = Vec::new();
    for parameter in [operation, item]
        .into_iter()
        .filter_map(|at| at["parameters"].as_array())
        .flatten()
    {
        let parameter = resolve(document, parameter);
        let text = |key: &str| parameter[key].as_str().unwrap_or_default().to_owned();
        let key = format!("{} parameter {}", text("in"), text("name"));
        if found.insert(key.clone(), Value::Null).is_none() {
            parameters.push((key, parameter));
        }
    }
    parameters
}

/// Resolves a `$ref` to a parameter, body, response or header. Returns other values unchanged.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"]
        .as_str()
        .and_then(|reference| document.pointer(reference.strip_prefix('#')?));
    target.unwrap_or(value)
}

fn is_true(value: &Value, key: &str) -> bool {
    value[key].as_bool() == Some(true)
}
