//! Long proofs: many sessions, interruptions, a shutdown, and memory. `make prove` runs them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tollgate_testkit::gateway::{Gateway, Storage, eventually, nanos};

use super::client::{CHUNK, Handshake, Reply, SECOND, Session, error_of, silence, speech};
use crate::scene::{Scene, credits};

/// Maximum number of sessions of an account on a node.
const PER_ACCOUNT: usize = 20;
const VOICE_QUERY: &str = "?model=sim/voice";
const TRANSCRIPTION_QUERY: &str = "?model=sim/transcribe";
const COMPLETED: &str = "conversation.item.input_audio_transcription.completed";
/// Environment variable with the minutes of the proof of memory.
const MINUTES: &str = "TOLLGATE_PROVE_MINUTES";

/// Random numbers with a new seed in each run, which the test prints.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = RandomState::new().build_hasher().finish();
        println!("seed {seed}");
        Self(seed)
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

/// An account with credits, and a key.
struct Payer {
    id: String,
    key: String,
}

/// Creates the accounts for this many sessions on a node.
async fn payers(scene: &Scene, sessions: usize) -> Vec<Payer> {
    let mut payers = Vec::new();
    for _ in 0..sessions.div_ceil(PER_ACCOUNT) {
        let id = scene.gateway.account().await;
        scene.gateway.grant(&id, "1000").await;
        scene.gateway.set_limits(&id, 1_000_000, 1_000_000_000).await;
        let key = scene.gateway.key(&id).await.secret;
        payers.push(Payer { id, key });
    }
    payers
}

/// Waits until no hold of these accounts is open. Returns the credits that each has paid.
async fn paid(node: &Gateway, payers: &[Payer]) -> Vec<i64> {
    let mut paid = Vec::new();
    for payer in payers {
        let mut credits = 0;
        eventually("no hold is left", async || {
            let balance = node.balance(&payer.id).await;
            credits = balance.credits;
            balance.held == 0
        })
        .await;
        paid.push(1_000_000_000_000 - credits);
    }
    paid
}

/// Returns the rows of a request.
async fn rows_of(node: &Gateway, key: &str, request: &str) -> Vec<Value> {
    let usage = node.usage(key, &format!("?request_id={request}&limit=100")).await;
    assert_eq!(usage["has_more"], false);
    usage["data"].as_array().unwrap().clone()
}

/// Sends 200 s of audio and some samples more, in turns of random lengths.
async fn transcribe_turns(mut session: Session, audio: Arc<Vec<u8>>, mut dice: Dice) -> (String, i64) {
    let (mut sent, mut seconds) = (0, 0.0);
    let target = 200 * SECOND + 2 * usize::try_from(dice.below(24_000)).unwrap();
    while sent < target {
        // Each turn ends before the gateway would end it.
        let turn = (2 * usize::try_from(dice.below(1_400_000)).unwrap() + 2 * CHUNK).min(target - sent);
        let start = sent % (audio.len() - turn);
        let start = start - start % 2;
        let size = 2 * (1 + usize::try_from(dice.below(60_000)).unwrap());
        session
            .append_chunks(&audio[start..start + turn], size.max(1_000))
            .await;
        sent += turn;
        if turn >= CHUNK {
            session.send(&json!({"type": "input_audio_buffer.commit"})).await;
            seconds += session.until(COMPLETED).await["usage"]["seconds"]
                .as_f64()
                .unwrap();
        }
    }
    let request = session.request_id.clone();
    session.close().await;
    let samples = i64::try_from(sent / 2).unwrap();
    let micros = samples * 1_000_000 / 24_000;
    assert!(
        seconds <= micros as f64 / 1e6 + 1e-3,
        "{seconds} s of {micros} µs"
    );
    (request, micros)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a proof: make prove"]
async fn prove_ten_thousand_seconds_of_audio_are_charged_to_the_microsecond() {
    const COUNT: usize = 50;
    /// Price of the simulator's transcription model, in nano-credits per second.
    const PER_SECOND: i64 = 100_000;
    let scene = Scene::start_with("[realtime]\ninterim_ms = 0\n").await;
    let payers = payers(&scene, COUNT).await;
    let spoken = speech(&scene, "The lighthouse stands on a rock in the sea. ").await;
    let mut audio: Vec<u8> = Vec::new();
    while audio.len() < 90 * SECOND {
        audio.extend(&spoken);
        audio.extend(silence(1_000));
    }
    let audio = Arc::new(audio);
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    let mut dice = Dice::new();
    for number in 0..COUNT {
        let key = payers[number / PER_ACCOUNT].key.clone();
        let session = Session::open(Handshake::with_key(&scene, TRANSCRIPTION_QUERY, &key)).await;
        let (audio, dice) = (audio.clone(), Dice(dice.below(u64::MAX)));
        tasks.spawn(async move { (number, transcribe_turns(session, audio, dice).await) });
    }
    let sessions = tasks.join_all().await;
    let took = start.elapsed();
    let paid = paid(&scene.gateway, &payers).await;
    let (mut charged, mut total, mut blocks) = (vec![0; payers.len()], 0, 0);
    for (number, (request, micros)) in sessions {
        let payer = number / PER_ACCOUNT;
        let rows = rows_of(&scene.gateway, &payers[payer].key, &request).await;
        let of_row = |row: &Value| row["usage"]["audio_microseconds"].as_i64().unwrap();
        assert_eq!(rows.iter().map(of_row).sum::<i64>(), micros, "{request}");
        for row in &rows {
            assert_eq!(row["outcome"], "ok", "{row}");
            let cost = nanos(&row["cost"]);
            let exact = of_row(row) * PER_SECOND;
            // A cost is rounded up to a nano-credit.
            assert!((exact..exact + 1_000_000).contains(&(cost * 1_000_000)), "{row}");
            charged[payer] += cost;
        }
        (total, blocks) = (total + micros, blocks + rows.len());
    }
    assert_eq!(charged, paid);
    assert!(total >= 10_000_000_000, "{total} µs");
    println!(
        "{} s of audio over {COUNT} sessions in {:.0} s: {blocks} rows, {} nano-credits",
        total / 1_000_000,
        took.as_secs_f64(),
        charged.iter().sum::<i64>()
    );
    let check = scene.finish().await;
    assert!(
        check.clean && check.crashed == 0 && check.overrun == 0,
        "{check:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a proof: make prove"]
async fn prove_sixty_four_sessions_at_the_last_credit_never_overdraw() {
    const NODES: usize = 4;
    const PER_NODE: usize = 16;
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    /// Responses that the credits cover at the same time.
    const COVERED: i64 = 40;
    let text = "[[sim delay=300]] Hello there, how are you?";
    let capped = json!({"type": "response.create", "response": {"max_output_tokens": 50}});
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let mut nodes = Vec::new();
    for _ in 1..NODES {
        let options = Scene::options(&scene.upstream, Storage::Postgres, "");
        nodes.push(scene.gateway.start_node(options).await);
    }
    let mut session = Session::voice(&scene).await;
    session.write(text).await;
    session.send(&capped).await;
    session.until("response.created").await;
    let hold = scene.balance().await.held;
    let cost = nanos(&session.reply().await.completed().response["usage"]["cost"]);
    assert!(hold > cost && cost > 0, "{hold} {cost}");
    session.close().await;

    let poor = scene.gateway.account().await;
    let granted = COVERED * hold;
    scene.gateway.grant(&poor, &credits(granted)).await;
    scene.gateway.set_limits(&poor, 1_000_000, 1_000_000_000).await;
    let key = scene.gateway.key(&poor).await.secret;
    let mut tasks = JoinSet::new();
    for number in 0..NODES * PER_NODE {
        let mut handshake = Handshake::with_key(&scene, VOICE_QUERY, &key);
        if let Some(node) = nodes.get(number % NODES) {
            handshake = handshake.at(node);
        }
        let mut session = Session::open(handshake).await;
        session.write(text).await;
        let capped = capped.clone();
        tasks.spawn(async move {
            let (mut costs, mut refused) = (Vec::new(), 0);
            // Each session responds until credits for a single response are missing.
            while refused < 3 {
                session.send(&capped).await;
                let event = session.event().await;
                if event["type"] == "error" {
                    assert_eq!(error_of(&event).0, "insufficient_credits", "{event}");
                    refused += 1;
                    continue;
                }
                let reply = session.reply().await.completed();
                costs.push(nanos(&reply.response["usage"]["cost"]));
                let id = reply.response["output"][0]["id"].clone();
                session
                    .send(&json!({"type": "conversation.item.delete", "item_id": id}))
                    .await;
                session.until("conversation.item.deleted").await;
            }
            (costs, refused)
        });
    }
    let (mut polls, mut lowest, mut ended) = (0, granted, Vec::new());
    while !tasks.is_empty() {
        if let Ok(Some(one)) = timeout(POLL_INTERVAL, tasks.join_next()).await {
            ended.push(one.unwrap());
            continue;
        }
        let usage = scene.gateway.usage(&key, "?limit=1").await;
        let (left, held) = (
            nanos(&usage["balance"]["credits"]),
            nanos(&usage["balance"]["held"]),
        );
        assert!(left >= 0 && held >= 0, "{usage}");
        (polls, lowest) = (polls + 1, lowest.min(left));
    }
    let (mut served, mut sum, mut refused) = (0, 0, 0);
    for (costs, of_one) in ended {
        served += i64::try_from(costs.len()).unwrap();
        sum += costs.iter().sum::<i64>();
        refused += of_one;
    }
    assert!(
        served >= COVERED && refused > 0,
        "{served} served, {refused} refused"
    );
    assert!(sum <= granted, "{sum} of {granted}");
    let mut balance = scene.gateway.balance(&poor).await;
    eventually("no hold is left", async || {
        balance = scene.gateway.balance(&poor).await;
        balance.held == 0
    })
    .await;
    assert_eq!(balance.credits, granted - sum);
    println!("{served} responses served, {refused} refused, {polls} balances read, the lowest {lowest}");
    for node in nodes {
        node.finish().await;
    }
    let check = scene.finish().await;
    assert_eq!((check.clean, check.overrun), (true, 0), "{check:?}");
}

/// Returns a long answer, whose words differ.
fn counting() -> String {
    let numbers = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    ];
    let sentences = numbers.iter().flat_map(|ten| {
        let sentence = |unit: &&str| format!("Now comes {ten} and then {unit}, as all of us know.");
        numbers.iter().map(sentence).collect::<Vec<_>>()
    });
    sentences.take(40).collect::<Vec<_>>().join(" ")
}

/// Returns the words of an item.
async fn words_of(session: &mut Session, id: &Value) -> String {
    let item = session.retrieve(id).await;
    let content = &item["content"][0];
    let words = content["transcript"].as_str().unwrap_or_default();
    words.trim_end().to_owned()
}

/// Truncates an item, and returns its words.
async fn truncated(session: &mut Session, id: &Value, ms: u64) -> String {
    session
        .send(&json!({"type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": ms}))
        .await;
    session.until("conversation.item.truncated").await;
    words_of(session, id).await
}

/// Asserts that these words are the beginning of the text, and that no word is cut.
fn assert_beginning(words: &str, text: &str) {
    let rest = text
        .strip_prefix(words)
        .unwrap_or_else(|| panic!("{words:?} of {text:?}"));
    assert!(
        words.is_empty() || rest.is_empty() || rest.starts_with(' '),
        "{words:?} {rest:?}"
    );
}

/// Returns the number of bytes that a base64 text encodes.
fn bytes_of(base64: &str) -> usize {
    base64.len() / 4 * 3 - base64.matches('=').count()
}

/// Returns the text of each spoken chunk with the duration of its audio in milliseconds, from the
/// events of a response.
fn chunks_of(reply: &Reply) -> Vec<(String, u64)> {
    let mut chunks: Vec<(String, usize)> = Vec::new();
    for event in &reply.events {
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "response.output_audio_transcript.delta" => chunks.push((delta.to_owned(), 0)),
            "response.output_audio.delta" => {
                let (_, bytes) = chunks.last_mut().unwrap();
                *bytes += bytes_of(delta);
            }
            _ => {}
        }
    }
    let in_ms = |bytes: usize| u64::try_from(bytes * 1_000 / SECOND).unwrap();
    chunks
        .into_iter()
        .map(|(text, bytes)| (text, in_ms(bytes)))
        .collect()
}

/// Playback of audio as it arrives at a client. It is never ahead of the gateway's estimate, which
/// has sent the audio earlier.
struct Playback {
    delivered: Duration,
    end: Instant,
}

impl Playback {
    fn new() -> Self {
        Self {
            delivered: Duration::ZERO,
            end: Instant::now(),
        }
    }

    /// Adds the audio of an event, if it has some.
    fn add(&mut self, event: &Value) {
        if event["type"] != "response.output_audio.delta" {
            return;
        }
        let bytes = u64::try_from(bytes_of(event["delta"].as_str().unwrap())).unwrap();
        let duration = Duration::from_micros(bytes * 1_000_000 / 48_000);
        self.delivered += duration;
        self.end = self.end.max(Instant::now()) + duration;
    }

    /// Returns the duration of the audio that was played.
    fn played(&self) -> Duration {
        self.delivered
            .saturating_sub(self.end.saturating_duration_since(Instant::now()))
    }
}

/// Interrupts a response by speech after this time. The words that the gateway estimates lie
/// between those of the shortest and of the longest time that can have been played.
async fn interrupt_by_speech(session: &mut Session, audio: &[u8], wait: Duration) {
    let created = Instant::now();
    session.send(&json!({"type": "response.create"})).await;
    let mut playback = Playback::new();
    playback.add(&session.until("response.output_audio.delta").await);
    let end = Instant::now() + wait;
    while let Some(event) = session
        .event_within(end.saturating_duration_since(Instant::now()))
        .await
    {
        playback.add(&event);
    }
    let shortest = playback.played();
    session.append(audio).await;
    session.until("input_audio_buffer.speech_started").await;
    let longest = created.elapsed();
    let reply = session.reply().await;
    session.send(&json!({"type": "input_audio_buffer.clear"})).await;
    session.until("input_audio_buffer.cleared").await;
    let details = &reply.response["status_details"];
    assert_eq!(details["reason"], "turn_detected", "{}", reply.response);
    let id = &reply.response["output"][0]["id"];
    let heard = words_of(session, id).await;
    assert_beginning(&heard, &counting());
    let ms = |played: Duration| u64::try_from(played.as_millis()).unwrap();
    let fewest = truncated(session, id, ms(shortest)).await;
    let all = truncated(session, id, ms(longest) + 1).await;
    assert!(
        heard.starts_with(&fewest) && all.starts_with(&heard),
        "{fewest:?} {heard:?} {all:?} of {shortest:?} to {longest:?}"
    );
    session
        .send(&json!({"type": "conversation.item.delete", "item_id": id}))
        .await;
    session.until("conversation.item.deleted").await;
}

/// Cancels a response after this time, and truncates it at a random position.
async fn cut_by_client(session: &mut Session, wait: Duration, dice: &mut Dice) {
    let from = session.logged();
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    tokio::time::sleep(wait).await;
    session.send(&json!({"type": "response.cancel"})).await;
    let reply = session.reply_since(from).await;
    let id = &reply.response["output"][0]["id"];
    let text = counting();
    let chunks = chunks_of(&reply);
    let total: u64 = chunks.iter().map(|(_, ms)| ms).sum();
    let mut at = Vec::from([0, total + 1_000]);
    at.extend((0..3).map(|_| dice.below(total)));
    for ms in at {
        let words = truncated(session, id, ms).await;
        assert_beginning(&words, &text);
        // Durations are rounded down to a millisecond, and the last chunk may be incomplete.
        let (mut earliest, mut latest) = (0, 0);
        let (mut spoken, mut started) = (String::new(), String::new());
        for (place, (chunk, duration)) in chunks.iter().enumerate() {
            if earliest <= ms {
                started.push_str(chunk);
            }
            (earliest, latest) = (earliest + duration, latest + duration + 1);
            if latest <= ms && place + 1 < chunks.len() {
                spoken.push_str(chunk);
            }
        }
        let (spoken, started) = (spoken.trim_end(), started.trim_end());
        assert!(
            words.starts_with(spoken) && started.starts_with(&*words),
            "{spoken:?} {words:?} {started:?} at {ms} ms of {chunks:?}"
        );
    }
    session
        .send(&json!({"type": "conversation.item.delete", "item_id": id}))
        .await;
    session.until("conversation.item.deleted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a proof: make prove"]
async fn prove_interruptions_leave_the_words_that_were_heard() {
    const SESSIONS: usize = 8;
    const EACH: usize = 25;
    let scene = Scene::start().await;
    let payers = payers(&scene, SESSIONS).await;
    let audio = Arc::new(speech(&scene, "Wait a moment, please, I have a question.").await);
    let mut dice = Dice::new();
    let mut tasks = JoinSet::new();
    for _ in 0..SESSIONS {
        let handshake = Handshake::with_key(&scene, VOICE_QUERY, &payers[0].key);
        let mut session = Session::open(handshake).await;
        session
            .update(json!({"turn_detection": {"type": "server_vad", "create_response": false}}))
            .await;
        session.write(&counting()).await;
        let (audio, mut dice) = (audio.clone(), Dice(dice.below(u64::MAX)));
        tasks.spawn(async move {
            for number in 0..EACH {
                let wait = Duration::from_millis(dice.below(1_500));
                match number % 2 {
                    0 => interrupt_by_speech(&mut session, &audio, wait).await,
                    _ => cut_by_client(&mut session, wait, &mut dice).await,
                }
            }
            session.close().await;
        });
    }
    tasks.join_all().await;
    let paid = paid(&scene.gateway, &payers).await[0];
    let usage = scene.gateway.usage(&payers[0].key, "?limit=1").await;
    println!(
        "{} interruptions, {paid} nano-credits paid: {}",
        SESSIONS * EACH,
        usage["data"][0]
    );
    assert!(paid > 0);
    let check = scene.finish().await;
    assert_eq!(
        (check.clean, check.crashed, check.open_holds),
        (true, 0, 0),
        "{check:?}"
    );
    assert!(check.usage_rows >= (SESSIONS * EACH) as u64, "{check:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a proof: make prove"]
async fn prove_a_shutdown_settles_two_hundred_sessions() {
    const COUNT: usize = 200;
    let config = "[drain]\ntime_ms = 10000\n[timeouts]\ndrain_delay_ms = 0\n";
    let mut scene = Scene::start_with(config).await;
    let payers = payers(&scene, COUNT).await;
    let mut sessions = Vec::new();
    for number in 0..COUNT {
        let payer = number / PER_ACCOUNT;
        let key = &payers[payer].key;
        let query = match number % 4 {
            3 => TRANSCRIPTION_QUERY,
            _ => VOICE_QUERY,
        };
        let mut session = Session::open(Handshake::with_key(&scene, query, key)).await;
        match number % 4 {
            0 => {}
            // A response that ends within the time of the shutdown, and one that does not.
            1 => drop(session.write("[[sim delay=500]] Hello there.").await),
            2 => drop(session.write("[[sim delay=60000]] Hello there.").await),
            _ => session.append(&silence(1_500)).await,
        }
        sessions.push((payer, number % 4, session));
    }
    for (_, kind, session) in &mut sessions {
        match kind {
            0 => {}
            3 => drop(session.pending().await),
            _ => {
                session.send(&json!({"type": "response.create"})).await;
                session.until("response.created").await;
            }
        }
    }
    scene.gateway.signal("TERM").await;
    let mut tasks = JoinSet::new();
    for (payer, kind, mut session) in sessions {
        tasks.spawn(async move {
            let (code, events) = session.closed().await;
            let done = events.iter().find(|event| event["type"] == "response.done");
            let done = done.map(|event| event["response"].clone());
            (payer, kind, session.request_id.clone(), code, done)
        });
    }
    let ended = tasks.join_all().await;
    assert_eq!(
        scene.gateway.wait_for_exit().await,
        Some(0),
        "{}",
        scene.gateway.log()
    );
    scene.gateway.restart().await;
    let paid = paid(&scene.gateway, &payers).await;
    let (mut charged, mut statuses) = (vec![0; payers.len()], std::collections::BTreeMap::new());
    for (payer, kind, request, code, done) in ended {
        assert_eq!(code, 1012, "kind {kind}");
        let key = &payers[payer].key;
        let rows = match &done {
            Some(done) => rows_of(&scene.gateway, key, done["request_id"].as_str().unwrap()).await,
            None => rows_of(&scene.gateway, key, &request).await,
        };
        assert_eq!(rows.len(), usize::from(kind > 0), "kind {kind}: {rows:?}");
        assert_eq!(done.is_some(), kind == 1 || kind == 2, "kind {kind}");
        charged[payer] += rows.iter().map(|row| nanos(&row["cost"])).sum::<i64>();
        if let Some(done) = done {
            assert_eq!(nanos(&done["usage"]["cost"]), nanos(&rows[0]["cost"]), "{done}");
            let status = done["status"].as_str().unwrap().to_owned();
            *statuses.entry((kind, status)).or_insert(0) += 1;
        } else if kind == 3 {
            assert_eq!(rows[0]["usage"]["audio_microseconds"], 1_500_000, "{rows:?}");
        }
    }
    assert_eq!(charged, paid);
    println!("responses by kind and status: {statuses:?}");
    assert_eq!(statuses.get(&(1, "completed".to_owned())), Some(&(COUNT / 4)));
    assert_eq!(statuses.get(&(2, "cancelled".to_owned())), Some(&(COUNT / 4)));
    let check = scene.finish().await;
    assert_eq!(
        (check.clean, check.crashed, check.open_holds),
        (true, 0, 0),
        "{check:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a proof: make prove"]
async fn prove_that_the_memory_of_five_hundred_sessions_is_flat() {
    const COUNT: usize = 500;
    const CONCURRENT: usize = 20;
    /// Maximum memory of a session, in bytes.
    const MAX_IDLE: u64 = 64 << 10;
    const MAX_MID_TURN: u64 = 700 << 10;
    let minutes = std::env::var(MINUTES).map_or(2, |minutes| minutes.parse().unwrap());
    let scene = Scene::start().await;
    let payers = payers(&scene, COUNT).await;
    let turn = Arc::new(speech(&scene, "Good morning to all of you.").await);
    let mut first = Session::voice(&scene).await;
    first.append(&turn).await;
    first.commit().await;
    let _ = first.respond(json!({})).await.completed();
    first.close().await;

    let before = scene.gateway.memory();
    let mut sessions = Vec::new();
    for number in 0..COUNT {
        let key = &payers[number / PER_ACCOUNT].key;
        sessions.push(Session::open(Handshake::with_key(&scene, VOICE_QUERY, key)).await);
    }
    let idle = scene.gateway.memory().saturating_sub(before) / COUNT as u64;
    for session in &mut sessions {
        session.append(&turn).await;
    }
    for session in &mut sessions {
        session.pending().await;
    }
    let mid_turn = scene.gateway.memory().saturating_sub(before) / COUNT as u64;
    println!(
        "{} KiB of a session at rest, {} KiB in a turn",
        idle >> 10,
        mid_turn >> 10
    );

    // In each round, every session commits its turn, reads the response, and begins the next turn.
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut samples = Vec::new();
    while Instant::now() < end || samples.len() < 3 {
        let mut ended = Vec::new();
        let mut tasks = JoinSet::new();
        for mut session in sessions {
            if tasks.len() >= CONCURRENT {
                ended.push(tasks.join_next().await.unwrap().unwrap());
            }
            let turn = turn.clone();
            tasks.spawn(async move {
                let item = session.commit().await;
                let reply = session
                    .respond(json!({"max_output_tokens": 100}))
                    .await
                    .completed();
                for id in [&item, &reply.response["output"][0]["id"]] {
                    session
                        .send(&json!({"type": "conversation.item.delete", "item_id": id}))
                        .await;
                    session.until("conversation.item.deleted").await;
                }
                session.forget();
                session.append(&turn).await;
                session
            });
        }
        ended.extend(tasks.join_all().await);
        sessions = ended;
        samples.push(scene.gateway.memory());
    }
    let shown: Vec<u64> = samples.iter().map(|bytes| bytes >> 20).collect();
    println!("MiB after each round of {COUNT} responses: {shown:?}");
    let (settled, last) = (samples[samples.len() / 3], *samples.last().unwrap());
    assert!(last <= settled + settled / 10, "{shown:?} MiB");
    assert!(
        idle <= MAX_IDLE && mid_turn <= MAX_MID_TURN,
        "{idle} {mid_turn} bytes"
    );
    drop(sessions);
    let rounds = samples.len();
    paid(&scene.gateway, &payers).await;
    let check = scene.finish().await;
    assert_eq!(
        (check.clean, check.crashed, check.open_holds),
        (true, 0, 0),
        "{check:?}"
    );
    assert!(check.usage_rows >= (rounds * COUNT) as u64, "{check:?}");
}
