//! Tests of vectors and usage, with a table of inputs.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::RequestId;
use tollgate_upstream::Permit;

use super::*;

async fn embed(input: Value, members: Value) -> Result<(EmbedResponse, EmbedAnswer), UpstreamError> {
    let mut body = json!({"model": "sim/embeddings", "input": input});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    let ctx = CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(60),
        inspected: false,
    };
    let call = EmbedCall {
        body: Bytes::from(body.to_string()),
        outline: None,
        upstream_model: "embeddings".into(),
    };
    let answer = Simulator::new("sim".into()).embed(&ctx, &call).await?;
    match &answer.payload {
        EmbedPayload::Common(response) => Ok((*response.clone(), answer)),
        EmbedPayload::Raw { .. } => panic!("the common form"),
    }
}

#[tokio::test]
async fn vectors_have_unit_length_and_the_requested_size() {
    for dimensions in [1_u32, 2, 7, 256, 1_536] {
        let (response, answer) = embed(json!(["a", "b", "a"]), json!({"dimensions": dimensions}))
            .await
            .unwrap();
        assert_eq!(response.vectors.len(), 3);
        assert_eq!(answer.output_bytes, 3 * u64::from(dimensions) * 4);
        for vector in &response.vectors {
            assert_eq!(vector.len(), dimensions as usize);
            let square: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
            assert!((square - 1.0).abs() < 1e-5, "{dimensions}: {square}");
        }
        assert_eq!(response.vectors[0], response.vectors[2]);
    }
    let (whole, _) = embed(json!("a"), json!({})).await.unwrap();
    assert_eq!(whole.vectors[0].len(), 1_536);
    let (again, _) = embed(json!(["b", "a"]), json!({})).await.unwrap();
    assert_eq!(
        again.vectors[1], whole.vectors[0],
        "independent of the other inputs"
    );
    assert_ne!(again.vectors[0], again.vectors[1]);
    let (tokens, _) = embed(json!([97]), json!({})).await.unwrap();
    assert_ne!(tokens.vectors[0], whole.vectors[0]);
}

#[tokio::test]
async fn usage_counts_every_input() {
    for (input, expected) in [
        (json!("one"), 1),
        (json!(["one two", "three"]), 3),
        (json!([9, 9, 9]), 3),
        (json!([[9], [9, 9]]), 3),
    ] {
        let (response, answer) = embed(input.clone(), json!({})).await.unwrap();
        assert_eq!(answer.usage, Some(Usage::tokens(expected, 0)), "{input}");
        assert_eq!(response.usage, answer.usage);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_text_may_have_a_script() {
    for (user_text, code) in [
        ("[[sim error=overloaded]]", ErrorCode::Overloaded),
        (
            "[[sim error=rate_limit_exceeded delay=5]]",
            ErrorCode::RateLimitExceeded,
        ),
        ("[[sim cut=usage]]", ErrorCode::UpstreamError),
        ("[[sim delay=60000]]", ErrorCode::UpstreamTimeout),
        ("[[sim what]]", ErrorCode::InvalidParameter),
    ] {
        let error = embed(json!(["first", user_text]), json!({})).await.unwrap_err();
        assert_eq!(error.kind, UpstreamErrorKind::Simulated(code), "{user_text}");
        assert!(
            embed(json!([user_text, "last"]), json!({})).await.is_ok(),
            "{user_text}"
        );
    }
    assert!(
        embed(json!("[[sim delay=59999 tokens=3]]"), json!({}))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn inputs_beyond_the_context_window_are_refused() {
    assert!(embed(json!([vec![1; 8_192]]), json!({})).await.is_ok());
    let error = embed(json!([[1], vec![1; 8_193]]), json!({})).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::ContextLength);
}
