//! A judge of the sandbox's requests and answers by docs/openapi.yaml.
//!
//! A third-party JSON-schema validator judges the schemas; tests/it/openapi.rs tries the judge on planted
//! violations. The content of the answers is not judged.

#![allow(dead_code, reason = "each of the tests asks for its part")]

use axum::body::Bytes;
use axum::http::Response;
use boon::{Compiler, Draft, SchemaIndex, Schemas, ValidationError};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

pub(crate) const JSON: &str = "application/json";

/// The file, as a judge of requests and answers. An operation is named as in `POST /api/Inventory`.
pub(crate) struct Interface {
    file: Value,
    /// Compiled schemas by their text, because compiling a schema takes far longer than applying it.
    compiled: RefCell<HashMap<String, (Schemas, SchemaIndex)>>,
}

impl Interface {
    /// Reads the file of the repository.
    pub(crate) fn read() -> Self {
        let file = serde_saphyr::from_str(include_str!("../../../docs/openapi.yaml")).unwrap();
        Self { file, compiled: RefCell::default() }
    }

    /// Returns every status of every operation.
    pub(crate) fn promised(&self) -> BTreeSet<(String, u16)> {
        let mut promised = BTreeSet::new();
        for (path, methods) in self.file["paths"].as_object().unwrap() {
            for (method, operation) in
                methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters")
            {
                let name = format!("{} {path}", method.to_uppercase());
                let statuses = operation["responses"].as_object().unwrap().keys();
                promised.extend(statuses.map(|status| (name.clone(), status.parse().unwrap())));
            }
        }
        promised
    }

    fn operation(&self, name: &str) -> Option<&Value> {
        let (method, path) = name.split_once(' ').unwrap();
        self.file["paths"].get(path)?.get(method.to_lowercase())
    }

    /// Returns the violations of a request's body.
    pub(crate) fn judge_request(&self, name: &str, body: Option<&Value>) -> Vec<String> {
        let Some(operation) = self.operation(name) else { return vec![format!("{name} is not in the file")] };
        match (operation.get("requestBody"), body) {
            (Some(described), Some(body)) => self.judge_body(described, body),
            (None, None) => Vec::new(),
            (described, _) => vec![format!("{name}: a body is described: {}", described.is_some())],
        }
    }

    /// Returns the violations of an answer.
    pub(crate) fn judge(&self, name: &str, answer: &Response<Bytes>) -> Vec<String> {
        let Some(operation) = self.operation(name) else { return vec![format!("{name} is not in the file")] };
        let Some(described) = operation["responses"].get(answer.status().as_str()) else {
            return vec![format!("{name}: {} is not documented", answer.status())];
        };
        let described = self.resolve(described);
        let mut wrong = self.judge_retry_after(described, answer);
        let media_type = answer.headers().get("content-type").map_or("", |value| value.to_str().unwrap());
        if media_type.split(';').next() != Some(JSON) {
            wrong.push(format!("the media type is '{media_type}'"));
        }
        match serde_json::from_slice(answer.body()) {
            Ok(body) => wrong.extend(self.judge_body(described, &body)),
            Err(cause) => wrong.push(format!("the body is no JSON: {cause}")),
        }
        wrong
    }

    fn judge_retry_after(&self, described: &Value, answer: &Response<Bytes>) -> Vec<String> {
        let Some(sent) = answer.headers().get("retry-after") else { return Vec::new() };
        let Some(header) = described["headers"].get("Retry-After") else {
            return vec!["Retry-After is not documented".to_owned()];
        };
        let seconds = sent.to_str().unwrap().parse::<u64>().map_or(Value::Null, Value::from);
        self.violations(&self.resolve(header)["schema"], &seconds)
    }

    fn judge_body(&self, described: &Value, body: &Value) -> Vec<String> {
        self.violations(&described["content"][JSON]["schema"], body)
    }

    pub(crate) fn violations(&self, schema: &Value, instance: &Value) -> Vec<String> {
        let mut compiled = self.compiled.borrow_mut();
        let (schemas, schema) = compiled.entry(schema.to_string()).or_insert_with(|| {
            let mut root = schema.as_object().expect("the file has a schema here").clone();
            root.insert("components".to_owned(), self.file["components"].clone());
            compile(Value::Object(root))
        });
        schemas.validate(instance, *schema).err().map_or_else(Vec::new, |error| single_violations(&error))
    }

    fn resolve<'a>(&'a self, described: &'a Value) -> &'a Value {
        match described["$ref"].as_str() {
            Some(reference) => self.file.pointer(reference.trim_start_matches('#')).unwrap(),
            None => described,
        }
    }
}

fn compile(schema: Value) -> (Schemas, SchemaIndex) {
    let (address, mut schemas, mut compiler) = ("file:///schema.json", Schemas::new(), Compiler::new());
    compiler.set_default_draft(Draft::V2020_12);
    compiler.add_resource(address, schema).expect("the address is its only one");
    let index = compiler.compile(address, &mut schemas).expect("the schema is one");
    (schemas, index)
}

/// Returns the violations that a validation found, without those that sum them up.
fn single_violations(error: &ValidationError<'_, '_>) -> Vec<String> {
    match error.causes.is_empty() {
        true => vec![format!("{}: {}", error.instance_location, error.kind)],
        false => error.causes.iter().flat_map(single_violations).collect(),
    }
}
