//! Tests of the decoded state: text, media, markers.

use serde_json::{Value, json};
use tollgate_types::ErrorCode::{InvalidParameter, MissingRequiredParameter, UnsupportedParameter};
use tollgate_types::decide::{State, StateMediaKind};

use super::{decision_request, error_of, native, noul, read};
use crate::decisions::{FileKinds, StatePart, read_with_kinds, state_parts};

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgo=";

fn state(state: Value) -> State {
    decision_request(&native(state, json!([noul()]))).state
}

fn input(input: Value) -> State {
    decision_request(&json!({"model": "m", "input": input, "questions": [noul()]})).state
}

fn contents(input: Value) -> State {
    decision_request(&json!({"model": "m", "input": input, "questions": {"q": noul()}})).state
}

#[test]
fn text_is_unchanged_and_json_is_canonical() {
    assert_eq!(state(json!("  as it is\n")).text, "  as it is\n");
    assert_eq!(
        state(json!({"b": 1, "a": ["x", {}, []]})).text,
        "{\n  \"b\": 1,\n  \"a\": [\n    \"x\",\n    {},\n    []\n  ]\n}"
    );
    let spaced = br#"{ "model":"m","questions":[{"type":"noul","instructions":"?"}],
        "state":{"\u0061":12345678901234567890.10,"e":1E2,"a":null} }"#;
    let text = read(spaced).unwrap().state.text;
    assert_eq!(
        text,
        "{\n  \"a\": 12345678901234567890.10,\n  \"e\": 1E2,\n  \"a\": null\n}"
    );
}

#[test]
fn an_empty_state_is_refused_and_an_empty_member_is_not() {
    for empty in [
        json!(""),
        json!(" \n"),
        json!([]),
        json!({}),
        json!([""]),
        json!([[], {}]),
        json!([null]),
    ] {
        let found = error_of(&native(empty, json!([noul()])));
        assert_eq!(found, (InvalidParameter, "state".to_owned()));
    }
    let blank = json!([{"type": "text", "text": " "}]);
    assert_eq!(error_of(&native(blank, json!([noul()]))).1, "state");
    for kind in [json!(7), json!(true)] {
        assert_eq!(
            error_of(&native(kind, json!([noul()]))),
            (InvalidParameter, "state".to_owned())
        );
    }
    assert_eq!(
        error_of(&native(json!(null), json!([noul()]))),
        (MissingRequiredParameter, "state".to_owned())
    );
    for fine in [json!({"message": ""}), json!([0]), json!([false]), json!(IMAGE)] {
        state(fine);
    }
}

/// Checks the kind, the URL and the path of the source for every form of a medium.
#[test]
fn media_are_found_in_every_form() {
    let (image, audio, video) = (
        StateMediaKind::Image,
        StateMediaKind::Audio,
        StateMediaKind::Video,
    );
    let web = "https://a.example/b?c=d";
    let cases = [
        (
            json!({"type": "image_url", "image_url": {"url": web, "detail": "low"}}),
            image,
            web,
            "state.m.image_url.url",
        ),
        (
            json!({"type": "image_url", "image_url": IMAGE}),
            image,
            IMAGE,
            "state.m.image_url",
        ),
        (
            json!({"type": "input_image", "image_url": web, "detail": "auto"}),
            image,
            web,
            "state.m.image_url",
        ),
        (
            json!({"type": "audio_url", "audio_url": {"url": web}}),
            audio,
            web,
            "state.m.audio_url.url",
        ),
        (
            json!({"type": "video_url", "video_url": {"url": web}}),
            video,
            web,
            "state.m.video_url.url",
        ),
        (
            json!({"type": "input_video", "video_url": web}),
            video,
            web,
            "state.m.video_url",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}),
            audio,
            "data:audio/mpeg;base64,AAAA",
            "state.m.input_audio.data",
        ),
        (
            json!({"type": "input_audio", "data": "AAAA", "format": "wav"}),
            audio,
            "data:audio/wav;base64,AAAA",
            "state.m.data",
        ),
        (
            json!({"type": "input_audio", "audio_url": web}),
            audio,
            web,
            "state.m.audio_url",
        ),
        (
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4A=="}}),
            image,
            "data:image/jpeg;base64,/9j/4A==",
            "state.m.source.data",
        ),
        (
            json!({"type": "image", "source": {"type": "url", "url": web}}),
            image,
            web,
            "state.m.source.url",
        ),
        (
            json!({"type": "image", "data": "UklGRgAAAABXRUJQ", "mime_type": "image/webp"}),
            image,
            "data:image/webp;base64,UklGRgAAAABXRUJQ",
            "state.m.data",
        ),
        (
            json!({"type": "audio", "data": "AAAA", "mime_type": "audio/l16;rate=8000"}),
            audio,
            "data:audio/l16;rate=8000;base64,AAAA",
            "state.m.data",
        ),
        (json!({"type": "video", "uri": web}), video, web, "state.m.uri"),
        (
            json!({"inline_data": {"mime_type": "video/mp4", "data": "AAAA"}}),
            video,
            "data:video/mp4;base64,AAAA",
            "state.m.inline_data.data",
        ),
        (
            json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}),
            image,
            "data:image/png;base64,iVBORw0KGgo=",
            "state.m.inlineData.data",
        ),
        (
            json!({"file_data": {"mime_type": "audio/wav", "file_uri": web}}),
            audio,
            web,
            "state.m.file_data.file_uri",
        ),
        (
            json!({"fileData": {"mimeType": "audio/wav", "fileUri": web}}),
            audio,
            web,
            "state.m.fileData.fileUri",
        ),
        (json!(IMAGE), image, IMAGE, "state.m"),
        (
            json!("DATA:Image/PNG;BASE64,iVBORw0KGgo="),
            image,
            "data:image/png;base64,iVBORw0KGgo=",
            "state.m",
        ),
    ];
    for (medium, kind, url, param) in cases {
        let found = state(json!({"m": medium}));
        let one = &found.media[0];
        assert_eq!(
            (one.kind, one.url.as_str(), one.param.as_str()),
            (kind, url, param),
            "{medium}"
        );
        assert_eq!(found.text, format!("{{\n  \"m\": \"[{} 1]\"\n}}", kind.as_str()));
    }
}

#[test]
fn media_lookalikes_stay_json() {
    for plain in [
        json!("https://a.example/b.png"),
        json!("data:image/png,plain"),
        json!("see data:image/png;base64,AAAA"),
        json!({"type": "image", "title": "An image"}),
        json!({"type": "video", "source": "camera", "data": "today"}),
        json!({"type": "document", "data": "text"}),
        json!({"type": "file", "name": "a.txt"}),
        json!({"inline_data": "text"}),
        json!({"type": 7, "image_url": "https://a.example/b"}),
    ] {
        let found = state(json!({"m": plain}));
        assert!(found.media.is_empty(), "{plain}");
        assert_eq!(
            serde_json::from_str::<Value>(&found.text).unwrap(),
            json!({"m": plain})
        );
    }
}

#[test]
fn documents_and_invalid_media_are_refused() {
    let cases = [
        (
            json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}),
            UnsupportedParameter,
            "state.m",
        ),
        (
            json!({"type": "document", "uri": "https://a.b/c.pdf", "mime_type": "application/pdf"}),
            UnsupportedParameter,
            "state.m",
        ),
        (
            json!({"type": "input_file", "file_id": "f", "file_url": "https://a.b/c.pdf"}),
            UnsupportedParameter,
            "state.m",
        ),
        (
            json!({"type": "file", "file": {"file_data": "AAAA"}}),
            UnsupportedParameter,
            "state.m",
        ),
        (
            json!({"inline_data": {"mime_type": "application/pdf", "data": "AAAA"}}),
            UnsupportedParameter,
            "state.m.inline_data.mime_type",
        ),
        (
            json!("data:application/pdf;base64,AAAA"),
            UnsupportedParameter,
            "state.m",
        ),
        (
            json!({"type": "input_image", "file_id": "f", "image_url": "https://a.b/c"}),
            InvalidParameter,
            "state.m.file_id",
        ),
        (
            json!({"type": "input_image", "file_id": ""}),
            InvalidParameter,
            "state.m.file_id",
        ),
        (
            json!({"type": "image", "source": {"type": "file"}}),
            MissingRequiredParameter,
            "state.m.source.file_id",
        ),
        (
            json!({"type": "document", "source": {"type": "file", "file_id": "f"}}),
            UnsupportedParameter,
            "state.m",
        ),
        (
            json!({"type": "input_image"}),
            MissingRequiredParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": {}}),
            MissingRequiredParameter,
            "state.m.image_url.url",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "ftp://a.b/c"}}),
            InvalidParameter,
            "state.m.image_url.url",
        ),
        (
            json!({"type": "image_url", "image_url": "file:///etc/passwd"}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": "https://"}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": "https:///a"}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": "https://a b/c"}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": format!("https://a.b/{}", "c".repeat(8_181))}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": "data:audio/wav;base64,AAAA"}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "image_url", "image_url": "data:image/png,AAAA"}),
            InvalidParameter,
            "state.m.image_url",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "midi"}}),
            InvalidParameter,
            "state.m.input_audio.format",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AAAA"}}),
            MissingRequiredParameter,
            "state.m.input_audio.format",
        ),
        (
            json!({"type": "image", "data": "AAAA", "mime_type": "audio/wav"}),
            InvalidParameter,
            "state.m.mime_type",
        ),
        (
            json!({"type": "image", "source": {"type": "text", "data": "f"}}),
            InvalidParameter,
            "state.m.source.type",
        ),
        (
            json!({"file_data": {"file_uri": "https://a.b/c"}}),
            MissingRequiredParameter,
            "state.m.file_data.mime_type",
        ),
        (json!("data:image/png;base64,"), InvalidParameter, "state.m"),
        (json!("data:image/png;base64,AAA"), InvalidParameter, "state.m"),
        (json!("data:image/png;base64,AAAA"), InvalidParameter, "state.m"),
        (json!("data:image/png;base64,AA=A"), InvalidParameter, "state.m"),
        (json!("data:image/png;base64,A==="), InvalidParameter, "state.m"),
        (json!("data:image/png;base64,AA-_"), InvalidParameter, "state.m"),
    ];
    for (medium, code, param) in cases {
        let found = error_of(&native(json!({"m": medium}), json!([noul()])));
        assert_eq!(found, (code, param.to_owned()), "{medium}");
    }
    state(json!({"type": "image_url", "image_url": format!("https://a.b/{}", "c".repeat(8_180))}));
}

/// Checks the declared kind and the path of the id for every form of a file.
#[test]
fn files_are_found_in_every_form() {
    let image = Some(StateMediaKind::Image);
    for (medium, kind, param) in [
        (
            json!({"type": "input_image", "file_id": "file-1"}),
            image,
            "state.m.file_id",
        ),
        (
            json!({"type": "input_image", "file_id": "file-1", "image_url": null}),
            image,
            "state.m.file_id",
        ),
        (
            json!({"type": "input_audio", "file_id": "file-1"}),
            Some(StateMediaKind::Audio),
            "state.m.file_id",
        ),
        (
            json!({"type": "input_video", "file_id": "file-1"}),
            Some(StateMediaKind::Video),
            "state.m.file_id",
        ),
        (
            json!({"type": "image", "source": {"type": "file", "file_id": "file-1"}}),
            image,
            "state.m.source.file_id",
        ),
        (
            json!({"type": "file", "file": {"file_id": "file-1"}}),
            None,
            "state.m.file.file_id",
        ),
        (
            json!({"type": "input_file", "file_id": "file-1"}),
            None,
            "state.m.file_id",
        ),
        (
            json!({"fileData": {"mimeType": "image/png", "fileUri": "files/file-1"}}),
            image,
            "state.m.fileData.fileUri",
        ),
        (
            json!({"type": "image", "uri": "https://a.b/v1beta/files/file-1"}),
            image,
            "state.m.uri",
        ),
    ] {
        let found = decision_request(&native(json!({"m": medium}), json!([noul()])));
        let [file] = &found.files[..] else {
            panic!("{medium}: {found:?}");
        };
        assert_eq!(
            (file.medium, file.id.as_str(), file.kind),
            (0, "file-1", kind),
            "{medium}"
        );
        let one = &found.state.media[0];
        assert_eq!((one.url.as_str(), one.param.as_str()), ("", param), "{medium}");
    }
}

/// The detected kind of a file determines its marker and its number. The number is 0 while the kind
/// is unknown.
#[test]
fn files_of_known_kind_are_counted() {
    let file = |id: &str| json!({"type": "file", "file": {"file_id": id}});
    let body = |number: usize| {
        let mut all = vec![json!(IMAGE), file("file-video")];
        all.extend(vec![file("file-image"); number]);
        native(Value::from(all), json!([noul()])).to_string()
    };
    let kinds = FileKinds::from([
        ("file-video".to_owned(), StateMediaKind::Video),
        ("file-image".to_owned(), StateMediaKind::Image),
    ]);
    let found = read_with_kinds(body(1).as_bytes(), &kinds).unwrap();
    let shown: Value = serde_json::from_str(&found.state.text).unwrap();
    assert_eq!(shown, json!(["[image 1]", "[video 1]", "[image 2]"]));
    let media: Vec<usize> = found.files.iter().map(|file| file.medium).collect();
    assert_eq!(media, [1, 2]);
    assert!(read(body(16).as_bytes()).is_ok());
    assert!(read_with_kinds(body(15).as_bytes(), &kinds).is_ok());
    let error = read_with_kinds(body(16).as_bytes(), &kinds).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("state[17].file.file_id"));
}

#[test]
fn media_are_numbered_by_kind_in_the_order_of_appearance() {
    let found = state(json!({
        "photos": [IMAGE, {"deep": {"type": "image_url", "image_url": {"url": "https://a.b/c"}}}],
        "call": {"type": "audio_url", "audio_url": {"url": "https://a.b/d"}},
        "last": IMAGE
    }));
    let params: Vec<&str> = found.media.iter().map(|medium| medium.param.as_str()).collect();
    assert_eq!(
        params,
        [
            "state.photos[0]",
            "state.photos[1].deep.image_url.url",
            "state.call.audio_url.url",
            "state.last"
        ]
    );
    let shown: Value = serde_json::from_str(&found.text).unwrap();
    assert_eq!(
        shown,
        json!({"photos": ["[image 1]", {"deep": "[image 2]"}], "call": "[audio 1]", "last": "[image 3]"})
    );
}

#[test]
fn caller_text_cannot_imitate_a_marker() {
    let found = state(
        json!({"[image 1]": "see [image 1], [ Image #2 ] and [video\n3] or [imagery 1] [image one] [[image 1]]", "m": IMAGE}),
    );
    let shown: Value = serde_json::from_str(&found.text).unwrap();
    assert_eq!(
        shown,
        json!({"(image 1)": "see (image 1), ( Image #2 ) and (video\n3) or [imagery 1] [image one] [(image 1)]", "m": "[image 1]"})
    );
    assert_eq!(state(json!("[audio 1]")).text, "(audio 1)");
    assert_eq!(
        state(json!([{"type": "text", "text": "[image 1]"}])).text,
        "(image 1)"
    );
    assert_eq!(
        input(json!([{"role": "user", "content": [{"type": "input_text", "text": "[image 1]"}]}])).text,
        "[\n  {\n    \"role\": \"user\",\n    \"content\": [\n      \"(image 1)\"\n    ]\n  }\n]"
    );
    // The brackets of a JSON list do not turn its content into a marker.
    assert_eq!(
        state(json!({"a": ["image 1"]})).text,
        "{\n  \"a\": [\n    \"image 1\"\n  ]\n}"
    );
}

#[test]
fn lists_of_text_parts_are_joined() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": IMAGE}}, {"type": "text", "text": "b"}]);
    assert_eq!(state(parts).text, "a\n\n[image 1]\n\nb");
    assert_eq!(contents(json!({"type": "text", "text": "a"})).text, "a");
    assert_eq!(
        contents(json!([{"type": "text", "text": "a"}, {"type": "video", "uri": "https://a.b/c"}])).text,
        "a\n\n[video 1]"
    );
    // A list of texts is JSON.
    assert_eq!(state(json!(["a", IMAGE])).text, "[\n  \"a\",\n  \"[image 1]\"\n]");
}

#[test]
fn openai_items_lose_their_cache_breakpoints() {
    let found = input(json!([
        {"role": "user", "content": [
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "input_json", "data": {"b": [1]}},
            {"type": "input_image", "image_url": IMAGE, "detail": "low"}
        ]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ]));
    let shown: Value = serde_json::from_str(&found.text).unwrap();
    assert_eq!(
        shown,
        json!([
            {"role": "user", "content": ["a", {"b": [1]}, "[image 1]"]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        ])
    );
    assert_eq!(found.media[0].param, "input[0].content[2].image_url");
}

#[test]
fn state_parts_have_each_medium_behind_its_marker() {
    let found = state(json!({"a": IMAGE, "b": "[image 2]", "c": "data:audio/wav;base64,AAAA", "d": IMAGE}));
    let shown: Vec<String> = state_parts(&found)
        .into_iter()
        .map(|part| match part {
            StatePart::Text(text) => text.to_owned(),
            StatePart::Medium(medium) => medium.param.clone(),
        })
        .collect();
    let expected = [
        "{\n  \"a\": \"[image 1]",
        "state.a",
        "\",\n  \"b\": \"(image 2)\",\n  \"c\": \"[audio 1]",
        "state.c",
        "\",\n  \"d\": \"[image 2]",
        "state.d",
        "\"\n}",
    ];
    assert_eq!(shown, expected);
    assert_eq!(state_parts(&state(json!("a"))), [StatePart::Text("a")]);
}
