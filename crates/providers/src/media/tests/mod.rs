//! Tests of the shared code. The calls for the tests of the providers are in `calls`.

pub(crate) mod calls;

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http_body::Body;
use secrecy::SecretString;
use tollgate_testkit::upstream::{FakeUpstream, Reply};
use tollgate_upstream::{Content, Size, Source, UpstreamCause, UpstreamError};

use super::*;
use crate::http::{BaseUrl, Credential, HttpClient, HttpSettings};
use calls::context;

#[test]
fn urls_are_own_only_at_the_same_server() {
    let base = BaseUrl::parse("https://api.example.com/v1").unwrap();
    for (location, own) in [
        ("https://api.example.com/v1/files/a?b=c", Some("/v1/files/a?b=c")),
        ("https://API.example.com:443/x#part", Some("/x")),
        ("https://api.example.com", Some("/")),
        ("/v1/files/a", Some("/v1/files/a")),
        ("http://api.example.com/v1/files/a", None),
        ("https://api.example.com:8443/x", None),
        ("https://api.example.com.evil.test/x", None),
        ("https://me@api.example.com/x", None),
        ("https://evil.test/https://api.example.com/x", None),
        ("//evil.test/x", None),
        ("/\\evil.test/x", None),
        ("files/a", None),
        ("", None),
    ] {
        assert_eq!(base.own_path(location).as_deref(), own, "{location}");
    }
    let plain = BaseUrl::parse("http://127.0.0.1:8188").unwrap();
    assert_eq!(plain.own_path("http://127.0.0.1:8188/a").as_deref(), Some("/a"));
    assert_eq!(plain.own_path("http://localhost:8188/a"), None);
}

#[test]
fn output_urls_become_bytes_own_paths_or_addresses() {
    let base = BaseUrl::parse("https://api.example.com/v1").unwrap();
    for (location, expected) in [
        (
            "data:image/png;base64,AAEC",
            Some(Content::Bytes(Bytes::from_static(&[0, 1, 2]))),
        ),
        ("/v1/a", Some(Content::Upstream("/v1/a".to_owned()))),
        (
            "https://cdn.example.com/a",
            Some(Content::Address("https://cdn.example.com/a".to_owned())),
        ),
        ("file:///etc/passwd", None),
        ("data:image/png;base64,%%%", None),
        ("data:image/png,text", None),
        ("ftp://cdn.example.com/a", None),
    ] {
        assert_eq!(content_at(&base, location).ok(), expected, "{location}");
    }
    assert_eq!(decoded("AAE").unwrap().as_ref(), [0, 1], "without its padding");
}

#[test]
fn sizes_and_lengths_in_words() {
    for (width, height, expected) in [
        (1920, 1080, "16:9"),
        (1024, 1024, "1:1"),
        (0, 0, "0:0"),
        (768, 1344, "4:7"),
    ] {
        assert_eq!(ratio(Size { width, height }), expected);
    }
    assert_eq!(seconds(Duration::from_secs(8)), Some(8));
    assert_eq!(seconds(Duration::from_millis(2_500)), None);
}

fn source() -> Source {
    Source {
        bytes: Bytes::from_static(b"\x89PNG\r\n\r\n--tollgate-"),
        mime_type: "image/png".into(),
    }
}

#[test]
fn a_form_announces_its_length() {
    let mut form = Form::new().unwrap();
    form.text("prompt", "two\r\nlines");
    form.file("image", "image.png", &source());
    let boundary = form.content_type().split_once("boundary=").unwrap().1.to_owned();
    let expected = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"prompt\"\r\n\r\ntwo\r\nlines\r\n--{boundary}\r\n\
         content-disposition: form-data; name=\"image\"; filename=\"image.png\"\r\ncontent-type: image/png\r\n\r\n\
         \u{FFFD}PNG\r\n\r\n--tollgate-\r\n--{boundary}--\r\n"
    );
    let length = form.into_body().size_hint().exact().unwrap();
    // The image's first byte is not UTF-8. Its replacement character in the text has three bytes.
    assert_eq!(length, expected.len() as u64 - 2);
    assert_ne!(
        Form::new().unwrap().content_type(),
        Form::new().unwrap().content_type()
    );
}

fn server(upstream: &FakeUpstream) -> Server {
    let base = BaseUrl::parse(&upstream.base_url()).unwrap();
    let credentials = [Credential::bearer(&SecretString::from("sk-secret")).unwrap()];
    Server::new(&base, &credentials, HttpClient::new(HttpSettings::default())).unwrap()
}

async fn downloaded(server: &Server, own: &str) -> Result<Vec<u8>, UpstreamError> {
    let stream = server.download(&context(), own).await?;
    let chunks: Vec<Bytes> = stream.try_collect().await?;
    Ok(chunks.concat())
}

#[tokio::test]
async fn downloads_follow_redirects_only_within_the_server() {
    let upstream = FakeUpstream::start().await;
    let moved = |to: &str| Reply::body(302, "text/plain", "").header("location", to);
    let elsewhere = upstream.base_url().replace("127.0.0.1", "localhost");
    upstream.set_file("/a", moved("/b"));
    upstream.set_file("/b", Reply::body(200, "video/mp4", "video"));
    upstream.set_file("/away", moved(&format!("{elsewhere}/b")));
    upstream.set_file("/round", moved("/round"));
    let server = server(&upstream);
    assert_eq!(downloaded(&server, "/a").await.unwrap(), b"video");
    let request = upstream.requests();
    assert!(
        request
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer sk-secret"))
    );
    for path in ["/away", "/round"] {
        let error = downloaded(&server, path).await.unwrap_err();
        assert_eq!(error.cause, UpstreamCause::Protocol, "{path}");
    }
    let error = downloaded(&server, "/none").await.unwrap_err();
    assert_eq!(error.status, Some(404));
    assert!(upstream.requests().iter().all(|request| request.path != "/v1/b"));
}
