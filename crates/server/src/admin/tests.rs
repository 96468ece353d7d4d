//! Tests of request bodies and of the OpenAPI document.

use serde_json::Value;
use tollgate_edge::object_body::{Members, Read, read};
use tollgate_operations::{AccountUpdate, NewLimit};
use tollgate_types::{Error, ErrorCode};

use super::accounts::ReadUpdate;
use super::document;

#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    count: Option<u8>,
}

impl Read for Sample {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.required("name", "a text")?,
            count: members.optional("count", "a whole number from 0 to 255")?,
        })
    }
}

#[test]
fn invalid_body_members_are_named() {
    use ErrorCode::{InvalidJson, InvalidParameter, MissingRequiredParameter, UnknownParameter};
    for (body, code, param) in [
        ("", InvalidJson, None),
        ("[]", InvalidJson, None),
        ("null", InvalidJson, None),
        (r#"{"name":"x"} x"#, InvalidJson, None),
        ("{}", MissingRequiredParameter, Some("name")),
        (r#"{"name":null}"#, MissingRequiredParameter, Some("name")),
        (r#"{"name":1}"#, InvalidParameter, Some("name")),
        (r#"{"name":["x"]}"#, InvalidParameter, Some("name")),
        (r#"{"name":"x","count":"1"}"#, InvalidParameter, Some("count")),
        (r#"{"name":"x","count":-1}"#, InvalidParameter, Some("count")),
        (r#"{"name":"x","count":256}"#, InvalidParameter, Some("count")),
        (r#"{"name":"x","count":1.5}"#, InvalidParameter, Some("count")),
        (r#"{"name":"x","colour":1}"#, UnknownParameter, Some("colour")),
    ] {
        let error = read::<Sample>(body.as_bytes()).unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), (code, param), "{body}");
    }
    let sample = Sample {
        name: "x".to_owned(),
        count: None,
    };
    assert_eq!(read::<Sample>(br#"{"name":"x","count":null}"#).unwrap(), sample);
}

#[test]
fn a_limit_of_null_is_the_default_and_one_left_out_stays() {
    let ReadUpdate(change) = read(br#"{"rpm":null,"tpm":5,"state":"suspended"}"#).unwrap();
    let expected = AccountUpdate {
        suspended: Some(true),
        rpm: Some(NewLimit::Default),
        tpm: Some(NewLimit::Own(5)),
        ..AccountUpdate::default()
    };
    assert_eq!(change, expected);
    for (body, param) in [
        (r#"{"rpm":-1}"#, "rpm"),
        (r#"{"rpm":4294967296}"#, "rpm"),
        (r#"{"keys":"7"}"#, "keys"),
        (r#"{"state":"closed"}"#, "state"),
        (r#"{"state":7}"#, "state"),
    ] {
        let error = read::<ReadUpdate>(body.as_bytes()).unwrap_err();
        let found = (error.code, error.param.as_deref());
        assert_eq!(found, (ErrorCode::InvalidParameter, Some(param)), "{body}");
    }
}

#[test]
fn every_operation_asks_for_a_token_and_is_described() {
    let document = serde_json::to_value(document()).unwrap();
    assert_eq!(
        document["components"]["securitySchemes"]["bearer"]["scheme"],
        "bearer"
    );
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/admin/v1/accounts/{id}/grants"));
    for (path, item) in paths {
        assert!(path.starts_with("/admin/v1/"), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            assert_eq!(
                operation["security"],
                serde_json::json!([{"bearer": []}]),
                "{place}"
            );
            let described = operation["summary"]
                .as_str()
                .or(operation["description"].as_str());
            assert!(described.is_some_and(|text| !text.is_empty()), "{place}");
            assert!(operation["responses"]["200"]["content"].is_object(), "{place}");
            let body = matches!(method.as_str(), "patch");
            assert!(!body || operation["requestBody"].is_object(), "{place}");
            for response in operation["responses"].as_object().unwrap().values() {
                let header = &response["headers"]["x-request-id"]["$ref"];
                assert_eq!(header, "#/components/headers/x-request-id", "{place}");
            }
        }
    }
    assert!(
        document["x-error-codes"]
            .as_array()
            .is_some_and(|codes| !codes.is_empty())
    );
    let schemas: &Value = &document["components"]["schemas"];
    assert!(schemas["AccountView"]["properties"]["rpm"].is_object());
}
