use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::clock::SystemClock;
use tollgate_types::{HoldId, Unit};
use tollgate_upstream::{REALTIME_RATE, RealtimeRole, RealtimeTool, UpstreamErrorKind};

use super::super::tests::context;
use super::super::{speech, tokens};
use super::*;

fn held() -> CallContext {
    CallContext {
        permit: Permit::Hold(HoldId::from_u128(9)),
        ..context()
    }
}

/// Returns a simulator without programs, whose speech has the same duration on every machine.
fn simulator() -> Simulator {
    let paths = tollgate_media_tools::ToolPaths {
        ffmpeg: Some("/missing".into()),
        ffprobe: Some("/missing".into()),
        espeak: Some("/missing".into()),
        font: Some("/missing".into()),
        max_concurrent: None,
    };
    Simulator::with("sim".into(), Tools::at(&paths), Arc::new(SystemClock::default()))
}

async fn open() -> Box<dyn RealtimeLink> {
    let call = RealtimeCall {
        upstream_model: "realtime".into(),
    };
    simulator().open(&context(), &call).await.unwrap()
}

fn said(text: &str) -> RealtimeItem {
    RealtimeItem::Message {
        role: RealtimeRole::User,
        text: text.into(),
    }
}

fn written() -> RealtimeSettings {
    RealtimeSettings {
        is_spoken: false,
        ..first_settings()
    }
}

async fn recording(text: &str) -> Bytes {
    let utterance = speech::utter(&simulator().tools, text.to_owned(), "alloy", 1.0).await;
    utterance.unwrap().into()
}

fn up_to(max_output_tokens: u64) -> RealtimeRequest {
    RealtimeRequest {
        max_output_tokens,
        outside: None,
    }
}

/// The output of one response.
#[derive(Debug, Default)]
struct Said {
    text: String,
    transcript: String,
    audio: Vec<u8>,
    calls: Vec<(String, String, String)>,
    items: Vec<ItemKey>,
    events: usize,
}

impl Said {
    fn take(&mut self, event: RealtimeEvent) -> Option<(RealtimeFinish, Usage)> {
        self.events += 1;
        match event {
            RealtimeEvent::Started => assert_eq!(self.events, 1),
            RealtimeEvent::Item(key) => self.items.push(key),
            RealtimeEvent::Text(delta) => self.text.push_str(&delta),
            RealtimeEvent::Transcript(delta) => self.transcript.push_str(&delta),
            RealtimeEvent::Audio(audio) => self.audio.extend_from_slice(&audio),
            RealtimeEvent::CallStarted { call_id, name, .. } => {
                self.calls.push((call_id, name, String::new()));
            }
            RealtimeEvent::CallArguments { index, delta } => {
                self.calls[index as usize].2.push_str(&delta);
            }
            RealtimeEvent::Ended { finish, usage } => return Some((finish, usage.unwrap())),
            RealtimeEvent::Failed(error) => panic!("{error}"),
        }
        None
    }

    fn audio_tokens(&self) -> u64 {
        (self.audio.len() as u64).div_ceil(2_400)
    }
}

async fn answer(link: &mut dyn RealtimeLink, request: &RealtimeRequest) -> (Said, RealtimeFinish, Usage) {
    link.respond(&held(), request).await.unwrap();
    let mut said = Said::default();
    loop {
        let event = link.next().await.unwrap();
        if let Some((finish, usage)) = said.take(event) {
            return (said, finish, usage);
        }
    }
}

/// Returns the answer to one text in a new conversation.
async fn reply(text: &str, settings: &RealtimeSettings) -> (Said, RealtimeFinish, Usage) {
    let mut link = open().await;
    link.configure(settings).await.unwrap();
    link.create(RealtimePlace::Last, &said(text)).await.unwrap();
    answer(&mut *link, &up_to(4_096)).await
}

fn usage(quantities: &[(Unit, u64)]) -> Usage {
    let quantities = quantities.iter();
    quantities.fold(Usage::ZERO, |usage, (unit, count)| usage.with(*unit, *count))
}

#[tokio::test]
async fn a_text_is_echoed_in_speech_or_in_writing() {
    for text in ["Good morning, harbour. How are you?", "hello", "ä 漢字 😀", "…!?"] {
        let (spoken, finish, counted) = reply(text, &first_settings()).await;
        assert_eq!((&*spoken.transcript, finish), (text, RealtimeFinish::Completed));
        assert_eq!((&*spoken.text, spoken.items.len()), ("", 1));
        let expected = usage(&[
            (Unit::Input, tokens::count(text)),
            (Unit::Output, tokens::count(text)),
            (Unit::OutputAudio, spoken.audio_tokens()),
        ]);
        assert_eq!(counted, expected, "{text}");
        assert_eq!(spoken.audio.is_empty(), text == "…!?");
        if !spoken.audio.is_empty() {
            let heard = speech::transcript(spoken.audio.into()).await.unwrap();
            assert_eq!(heard, text);
        }

        let (text_only, _, counted) = reply(text, &written()).await;
        assert_eq!((&*text_only.text, text_only.audio.len()), (text, 0));
        assert_eq!(counted.get(Unit::OutputAudio), 0);
        assert_eq!(counted.get(Unit::Output), tokens::count(text));
    }
}

#[tokio::test]
async fn words_precede_the_audio_of_their_sentence() {
    let mut link = open().await;
    let text = "One two three. Four five six.";
    link.create(RealtimePlace::Last, &said(text)).await.unwrap();
    link.respond(&held(), &up_to(4_096)).await.unwrap();
    let (mut words, mut at_first_audio, mut at_last_audio) = (String::new(), None, String::new());
    loop {
        match link.next().await.unwrap() {
            RealtimeEvent::Transcript(delta) => words.push_str(&delta),
            RealtimeEvent::Audio(_) => {
                at_first_audio.get_or_insert(words.clone());
                at_last_audio.clone_from(&words);
            }
            RealtimeEvent::Ended { .. } => break,
            _ => {}
        }
    }
    assert_eq!(at_first_audio.as_deref(), Some("One two three."));
    assert_eq!(at_last_audio, text);
}

#[tokio::test]
async fn recordings_are_heard_and_cached_afterwards() {
    let mut link = open().await;
    let hello = recording("Hello there.").await;
    let hello_tokens = (hello.len() as u64).div_ceil(4_800);
    let place = RealtimePlace::Last;
    let key = link.create(place, &RealtimeItem::Recording(hello)).await;
    let key = key.unwrap();
    let (first, _, counted) = answer(&mut *link, &up_to(4_096)).await;
    assert_eq!(first.transcript, "Hello there.");
    let output = |said: &Said| {
        [
            (Unit::Output, tokens::count(&said.transcript)),
            (Unit::OutputAudio, said.audio_tokens()),
        ]
    };
    let expected = [&[(Unit::InputAudio, hello_tokens)][..], &output(&first)].concat();
    assert_eq!(counted, usage(&expected));

    // 1.5 s of noise: 15 tokens, and words that state the duration.
    let noise: Vec<u8> = (0..REALTIME_RATE * 3 / 2)
        .flat_map(|n| i16::try_from(n * 7_919 % 2_000).unwrap().to_le_bytes())
        .collect();
    link.create(place, &RealtimeItem::Recording(noise.into()))
        .await
        .unwrap();
    let (second, _, counted) = answer(&mut *link, &up_to(4_096)).await;
    assert_eq!(second.transcript, "[simulated transcription of 1.5 s of audio]");
    let cached = hello_tokens + first.audio_tokens();
    let expected = [
        &[(Unit::InputAudio, 15), (Unit::CacheReadAudio, cached)][..],
        &output(&second),
    ];
    assert_eq!(counted, usage(&expected.concat()));

    // Half of the first answer was heard, and the first recording is deleted.
    let half_ms = first.audio.len() as u64 / 96;
    link.truncate(first.items[0], half_ms).await.unwrap();
    link.delete(key).await.unwrap();
    link.create(place, &said("And now?")).await.unwrap();
    let (_, _, counted) = answer(&mut *link, &up_to(4_096)).await;
    let cached = (half_ms * 48).div_ceil(2_400) + 15 + second.audio_tokens();
    assert_eq!(counted.get(Unit::CacheReadAudio), cached);
    assert_eq!((counted.get(Unit::InputAudio), counted.get(Unit::Input)), (0, 2));
    for error in [
        link.delete(key).await.unwrap_err(),
        link.truncate(key, 1).await.unwrap_err(),
        link.create(RealtimePlace::After(key), &said("x"))
            .await
            .unwrap_err(),
    ] {
        assert_eq!(
            error.kind,
            UpstreamErrorKind::Simulated(ErrorCode::InvalidParameter)
        );
    }
}

#[tokio::test]
async fn items_have_the_order_of_their_places() {
    let mut link = open().await;
    link.configure(&written()).await.unwrap();
    let last = link.create(RealtimePlace::Last, &said("last")).await.unwrap();
    let first = link.create(RealtimePlace::First, &said("first")).await.unwrap();
    link.create(RealtimePlace::After(first), &said("middle"))
        .await
        .unwrap();
    let (answered, _, counted) = answer(&mut *link, &up_to(10)).await;
    assert_eq!((&*answered.text, counted.get(Unit::Input)), ("last", 3));
    link.delete(last).await.unwrap();
    let (answered, ..) = answer(&mut *link, &up_to(10)).await;
    assert_eq!(answered.text, "middle");
}

fn weather() -> RealtimeSettings {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"]});
    RealtimeSettings {
        tools: vec![RealtimeTool {
            name: "weather".into(),
            description: Some("Returns the weather.".into()),
            parameters: Some(parameters.to_string().into()),
        }],
        ..first_settings()
    }
}

#[tokio::test]
async fn functions_are_called_and_their_output_is_read() {
    let mut link = open().await;
    link.configure(&weather()).await.unwrap();
    let text = r#"Is it cold? [[sim tool=weather:{"city":"Kiel"} tool=weather]]"#;
    link.create(RealtimePlace::Last, &said(text)).await.unwrap();
    let (called, finish, counted) = answer(&mut *link, &up_to(4_096)).await;
    assert_eq!(finish, RealtimeFinish::Completed);
    assert_eq!((called.items.len(), called.calls.len()), (2, 2));
    let [(id, name, arguments), (other_id, _, other)] = &called.calls[..] else {
        panic!("two calls");
    };
    assert_eq!((&**name, &**arguments), ("weather", r#"{"city":"Kiel"}"#));
    assert!(serde_json::from_str::<Value>(other).unwrap()["city"].is_string());
    assert_ne!(id, other_id);
    let written = 2 + tokens::count(arguments) + tokens::count(other);
    assert_eq!(counted.get(Unit::Output), written);

    let output = RealtimeItem::FunctionOutput {
        call_id: id.as_str().into(),
        output: "Four degrees.".into(),
    };
    link.create(RealtimePlace::Last, &output).await.unwrap();
    let (read, _, counted) = answer(&mut *link, &up_to(4_096)).await;
    assert_eq!((&*read.transcript, read.calls.len()), ("Four degrees.", 0));
    // The tool has 4 tokens, and the output 2.
    assert_eq!(counted.get(Unit::Input), 4 + tokens::count(text) + written + 2);
}

#[tokio::test]
async fn the_tool_choice_demands_a_call_or_forbids_it() {
    let cases = [
        (RealtimeToolChoice::Required, 1),
        (RealtimeToolChoice::Function("weather".into()), 1),
        (RealtimeToolChoice::Auto, 0),
        (RealtimeToolChoice::None, 0),
    ];
    for (tool_choice, expected) in cases {
        let settings = RealtimeSettings {
            tool_choice,
            ..weather()
        };
        let (said, ..) = reply("Is it cold?", &settings).await;
        assert_eq!(said.calls.len(), expected, "{:?}", settings.tool_choice);
    }
}

#[tokio::test]
async fn instructions_can_have_a_script() {
    let settings = RealtimeSettings {
        instructions: "Be brief. [[sim tokens=3]]".into(),
        ..written()
    };
    let (said, _, counted) = reply("Hello", &settings).await;
    assert_eq!((tokens::count(&said.text), counted.get(Unit::Output)), (3, 3));
    // The script of the user's text has precedence.
    let (said, ..) = reply("Hello [[sim tokens=5]]", &settings).await;
    assert_eq!(tokens::count(&said.text), 5);
    let (said, ..) = reply("[[sim refuse]]", &first_settings()).await;
    assert_eq!(said.transcript, "I cannot help with that.");
}

#[tokio::test]
async fn output_ends_at_its_limit() {
    // Three tokens of words; the audio of the sentence would have more than 17 tokens.
    for (max, words) in [(20, 3), (3, 3), (2, 2), (0, 0)] {
        let mut link = open().await;
        link.create(RealtimePlace::Last, &said("Good morning, harbour."))
            .await
            .unwrap();
        let (said, finish, counted) = answer(&mut *link, &up_to(max)).await;
        assert_eq!(finish, RealtimeFinish::MaxTokens);
        assert_eq!(counted.get(Unit::Output), words, "{max}");
        assert_eq!(counted.get(Unit::OutputAudio), if max == 20 { 17 } else { 0 });
        assert_eq!(said.audio_tokens(), counted.get(Unit::OutputAudio));
        let (_, finish, _) = answer(&mut *link, &up_to(4_096)).await;
        assert_eq!(finish, RealtimeFinish::Completed, "the link is usable");
    }
}

#[tokio::test]
async fn a_cancelled_response_reports_the_output_so_far() {
    let mut link = open().await;
    let text = "One two three. Four five six.";
    link.create(RealtimePlace::Last, &said(text)).await.unwrap();
    link.respond(&held(), &up_to(4_096)).await.unwrap();
    let mut said = Said::default();
    while said.audio.is_empty() {
        assert_eq!(said.take(link.next().await.unwrap()), None);
    }
    link.cancel().await.unwrap();
    let expected = usage(&[
        (Unit::Input, 6),
        (Unit::Output, 3),
        (Unit::OutputAudio, said.audio_tokens()),
    ]);
    let RealtimeEvent::Ended { finish, usage } = link.next().await.unwrap() else {
        panic!("the end of the response");
    };
    assert_eq!((finish, usage), (RealtimeFinish::Cancelled, Some(expected)));
    // The next response reads only that much of the answer.
    link.cancel().await.unwrap();
    let (_, _, counted) = answer(&mut *link, &up_to(4_096)).await;
    assert_eq!(counted.get(Unit::CacheReadAudio), said.audio_tokens());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_read_loses_nothing() {
    let mut link = open().await;
    link.configure(&written()).await.unwrap();
    let text = "one two three four [[sim delay=900 pace=700]]";
    link.create(RealtimePlace::Last, &said(text)).await.unwrap();
    link.respond(&held(), &up_to(4_096)).await.unwrap();
    let mut said = Said::default();
    loop {
        // Shorter than the delay and the pace, so that many reads are dropped.
        let read = tokio::time::timeout(Duration::from_millis(100), link.next()).await;
        let Ok(event) = read else { continue };
        if said.take(event.unwrap()).is_some() {
            break;
        }
    }
    assert_eq!(said.text, "one two three four");
    // The start, the item, four texts and the end.
    assert_eq!(said.events, 7);
}

#[tokio::test]
async fn responses_outside_the_conversation_change_nothing() {
    let mut link = open().await;
    link.configure(&written()).await.unwrap();
    let hello = recording("Hello.").await;
    let key = link
        .create(RealtimePlace::Last, &RealtimeItem::Recording(hello.clone()))
        .await
        .unwrap();
    link.create(RealtimePlace::Last, &said("main line"))
        .await
        .unwrap();
    let request = RealtimeRequest {
        outside: Some(vec![
            RealtimeInput::Item(said("a note")),
            RealtimeInput::Reference(key),
        ]),
        ..up_to(4_096)
    };
    let (outside, _, counted) = answer(&mut *link, &request).await;
    assert_eq!(outside.text, "Hello.");
    let heard = (hello.len() as u64).div_ceil(4_800);
    let expected = [(Unit::Input, 2), (Unit::InputAudio, heard), (Unit::Output, 1)];
    assert_eq!(counted, usage(&expected));
    assert!(link.delete(outside.items[0]).await.is_err());
    let (inside, _, counted) = answer(&mut *link, &up_to(4_096)).await;
    assert_eq!(inside.text, "main line");
    assert_eq!(counted.get(Unit::CacheReadAudio), heard);
    let missing = RealtimeRequest {
        outside: Some(vec![RealtimeInput::Reference(ItemKey(999))]),
        ..up_to(4_096)
    };
    assert!(link.respond(&held(), &missing).await.is_err());
}

#[tokio::test]
async fn scripted_errors_fail_the_response_alone() {
    let cases = [
        ("[[sim error=rate_limit_exceeded]]", ErrorCode::RateLimitExceeded),
        (
            "[[sim error=context_length_exceeded]]",
            ErrorCode::ContextLengthExceeded,
        ),
        ("[[sim tokens=many]]", ErrorCode::InvalidParameter),
    ];
    let mut link = open().await;
    for (text, code) in cases {
        let key = link.create(RealtimePlace::Last, &said(text)).await.unwrap();
        link.respond(&held(), &up_to(4_096)).await.unwrap();
        let RealtimeEvent::Failed(error) = link.next().await.unwrap() else {
            panic!("{text}");
        };
        assert_eq!(error.kind, UpstreamErrorKind::Simulated(code), "{text}");
        link.delete(key).await.unwrap();
    }
    let (said, ..) = answer(&mut *link, &up_to(4)).await;
    assert!(!said.transcript.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_the_timeout_fails_the_response() {
    let mut link = open().await;
    link.create(RealtimePlace::Last, &said("[[sim delay=60000]]"))
        .await
        .unwrap();
    link.respond(&held(), &up_to(4_096)).await.unwrap();
    let RealtimeEvent::Failed(error) = link.next().await.unwrap() else {
        panic!("a failure");
    };
    assert_eq!(
        error.kind,
        UpstreamErrorKind::Simulated(ErrorCode::UpstreamTimeout)
    );
}

#[tokio::test]
async fn a_cut_ends_the_connection() {
    // The start, the item and three chunks precede the end.
    for (cut, events) in [("start", 1), ("3", 3), ("usage", 5), ("end", 5)] {
        let mut link = open().await;
        link.configure(&written()).await.unwrap();
        let text = format!("one two three [[sim cut={cut}]]");
        link.create(RealtimePlace::Last, &said(&text)).await.unwrap();
        link.respond(&held(), &up_to(4_096)).await.unwrap();
        let mut said = Said::default();
        let error = loop {
            match link.next().await {
                Ok(event) => assert_eq!(said.take(event), None),
                Err(error) => break error,
            }
        };
        assert_eq!(said.events, events, "{cut}");
        assert_eq!(error.kind, UpstreamErrorKind::Simulated(ErrorCode::UpstreamError));
        assert!(link.next().await.is_err());
        assert!(link.respond(&held(), &up_to(1)).await.is_err());
        assert!(link.create(RealtimePlace::Last, &self::said("x")).await.is_err());
    }
}

#[tokio::test]
async fn a_response_needs_a_hold_and_no_other_response() {
    let mut link = open().await;
    assert!(link.respond(&context(), &up_to(8)).await.is_err());
    link.create(RealtimePlace::Last, &said("hello")).await.unwrap();
    link.respond(&held(), &up_to(4_096)).await.unwrap();
    assert!(link.respond(&held(), &up_to(8)).await.is_err());
    let mut said = Said::default();
    while said.take(link.next().await.unwrap()).is_none() {}
    assert_eq!(said.transcript, "hello");
}
