//! Tests of the demand of a request and of the model check.

use tollgate_billing::quote;
use tollgate_catalog::{CatalogInput, EnabledProvider, ModelKind};
use tollgate_formats::embeddings::validate;
use tollgate_types::ErrorCode;

use super::service::{check_model, demand};

fn simulated() -> tollgate_catalog::Snapshot {
    let sim = EnabledProvider {
        name: "sim".to_owned(),
        preset: "sim".to_owned(),
        simulated: true,
        default_price: None,
        discovered: Vec::new(),
    };
    let input = CatalogInput {
        providers: vec![sim],
        ..CatalogInput::default()
    };
    tollgate_catalog::load(&input).unwrap()
}

#[test]
fn token_bound_is_one_per_byte_and_exact_for_tokens() {
    // Input, upper bound and estimate of its tokens. The bound adds eight tokens per input.
    for (input, bound, estimate) in [
        (r#""abcd""#, 4 + 8, 1),
        (r#""\u00e9\n""#, 3 + 8, 1),
        (r#"["abcd","efghi"]"#, 9 + 16, 3),
        ("[1,2,3]", 3 + 8, 3),
        ("[[1,2,3],[4]]", 4 + 16, 4),
    ] {
        let body = format!(r#"{{"model":"sim/embeddings","input":{input}}}"#);
        let demand = demand(&validate(body.as_bytes()).unwrap());
        assert_eq!(
            (demand.input_bound(), demand.input_estimate()),
            (bound, estimate),
            "{input}"
        );
        let snapshot = simulated();
        let model = snapshot.resolve("sim/embeddings").unwrap();
        let quote = quote(model, &demand);
        // 0.02 credits for a million tokens.
        assert_eq!(
            quote.amount.nanos(),
            i64::try_from(bound).unwrap() * 20,
            "{input}"
        );
        assert_eq!((quote.output_cap, quote.must_clamp), (0, false));
    }
}

#[test]
fn models_of_another_kind_and_longer_vectors_are_refused() {
    let snapshot = simulated();
    let chat = snapshot.resolve("sim/chat").unwrap();
    let vectors = snapshot.resolve("sim/embeddings").unwrap();
    assert_eq!((chat.kind, vectors.kind), (ModelKind::Chat, ModelKind::Embedding));
    let head = |dimensions: u32| format!(r#"{{"model":"m","input":"a","dimensions":{dimensions}}}"#);
    let check = |model, dimensions| {
        check_model(model, &validate(head(dimensions).as_bytes()).unwrap())
            .map_err(|error| (error.code, error.param))
    };
    let refused = |code, param: &str| Err((code, Some(param.to_owned())));
    assert_eq!(check(chat, 1), refused(ErrorCode::UnsupportedEndpoint, "model"));
    assert_eq!(check(vectors, 1), Ok(()));
    assert_eq!(check(vectors, 1_536), Ok(()));
    assert_eq!(
        check(vectors, 1_537),
        refused(ErrorCode::ParameterOutOfRange, "dimensions")
    );
}
