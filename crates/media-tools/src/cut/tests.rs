use std::sync::Mutex;

use crate::image::Image;
use crate::scene::{Motion, SceneSpec};

use super::*;

const SIZE: Dimensions = Dimensions::new(64, 96);

/// Creates segments with these gray values, numbers of frames and transitions.
async fn segments(tools: &Tools, scratch: &Scratch, rate: u32, scenes: &[(u8, u64, Transition)]) -> CutSpec {
    let mut scene_list = Vec::new();
    for (number, (grey, frames, transition)) in scenes.iter().enumerate() {
        let spec = SceneSpec {
            size: SIZE,
            rate,
            duration: FrameRate::per_second(rate).duration(*frames),
            motion: Motion::Still,
            captions: None,
            banner: None,
        };
        let pixels = [*grey, *grey, *grey, 255].repeat(16);
        let image = Image::from_rgba(Dimensions::new(4, 4), pixels).unwrap();
        let segment = scratch.file(&format!("segment {number}.mp4"));
        tools.scene_from_image(&spec, &image, &segment).await.unwrap();
        scene_list.push(CutScene {
            segment,
            frames: *frames,
            transition: *transition,
        });
    }
    CutSpec {
        size: SIZE,
        rate,
        scenes: scene_list,
        voices: Vec::new(),
        clips: Vec::new(),
        music: None,
        note: None,
    }
}

/// Returns the gray value at the center of each frame.
async fn greys(tools: &Tools, video: &Path) -> Vec<u8> {
    let run = Run::new(Program::Ffmpeg, TIMEOUT).source(video).args([
        "-vf",
        "crop=4:4,scale=1:1,format=gray",
        "-f",
        "rawvideo",
        "-",
    ]);
    tools.run(run).await.unwrap()
}

#[tokio::test]
async fn scenes_occupy_their_frames() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let rate = 30;
    let scenes = [
        (40, 40, Transition::Fade),
        (120, 47, Transition::Fade),
        // The scene is too short for a transition.
        (220, 20, Transition::Fade),
        (60, 31, Transition::Wipe),
        (90, 25, Transition::Cut),
        (160, 31, Transition::SlideLeft),
        (200, 26, Transition::Wipe),
        (30, 30, Transition::Dissolve),
    ];
    let spec = segments(&tools, &scratch, rate, &scenes).await;
    tools.assemble(&spec, &place, None).await.unwrap();
    let found = greys(&tools, &place).await;
    assert_eq!(found.len() as u64, spec.frames());
    assert_eq!(spec.frames(), 250 - 4 * overlap(rate));
    for (place, (start, (grey, frames, _))) in spec.starts().iter().zip(&scenes).enumerate() {
        let alone = start + spec.overlap_before(place)..start + frames - spec.overlap_before(place + 1);
        for frame in alone {
            let found = found[frame as usize];
            assert!(found.abs_diff(*grey) < 6, "{rate} {place} {frame}: {found}");
        }
    }
    // The gray value changes gradually during a transition.
    for (place, transition) in [(1, "fade"), (5, "slideleft"), (6, "wipeleft"), (7, "dissolve")] {
        assert_eq!(spec.transition(place), Some(transition));
        let encode_transition = &found[spec.starts()[place] as usize..][..overlap(rate) as usize];
        let (one, other) = (scenes[place - 1].0, scenes[place].0);
        let near = |grey: u8| encode_transition.iter().any(|found| found.abs_diff(grey) < 12);
        assert!(near(one) && near(other), "{transition}: {encode_transition:?}");
    }
    assert!([0, 2, 3, 4].iter().all(|place| spec.transition(*place).is_none()));
}

#[tokio::test]
async fn equal_scenes_give_equal_bytes() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let mut spec = segments(
        &tools,
        &scratch,
        24,
        &[(40, 30, Transition::Cut), (90, 30, Transition::Dissolve)],
    )
    .await;
    spec.note = Some("a note");
    spec.voices = vec![tone(&tools, &scratch, "voice.wav", "sine=f=500:d=1", 200).await];
    let mut videos = Vec::new();
    for name in ["one", "two"] {
        let place = scratch.file(name);
        let probe = tools.assemble(&spec, &place, None).await.unwrap();
        assert_eq!(probe.comment.as_deref(), Some("a note"));
        videos.push(std::fs::read(place).unwrap());
    }
    assert_eq!(videos.first(), videos.last());
    // The index precedes the data, so that playback can start during the download.
    let at = |name: &[u8]| videos[0].windows(4).position(|four| four == name);
    assert!(at(b"moov") < at(b"mdat"));
}

async fn tone(tools: &Tools, scratch: &Scratch, name: &str, graph: &str, at: u64) -> AudioClip {
    let path = scratch.file(name);
    let run = Run::new(Program::Ffmpeg, TIMEOUT)
        .args(["-f", "lavfi", "-i", graph])
        .file(&path);
    tools.run(run).await.unwrap();
    AudioClip {
        path,
        at: Duration::from_millis(at),
        length: None,
        volume: 1.0,
    }
}

/// Returns the loudness in a band around this frequency, in decibels, for each tenth of a second.
async fn loudness(tools: &Tools, video: &Path, hertz: u32) -> Vec<f64> {
    let band = format!("bandpass=f={hertz}:width_type=h:w=60,bandpass=f={hertz}:width_type=h:w=60");
    let run = Run::new(Program::Ffmpeg, TIMEOUT)
        .source(video)
        .args(["-af", &band, "-ac", "1", "-ar", "16000", "-f", "s16le", "-"]);
    let samples = tools.run(run).await.unwrap();
    let samples: Vec<f64> = samples
        .chunks_exact(2)
        .map(|pair| f64::from(i16::from_le_bytes([pair[0], pair[1]])))
        .collect();
    let tenths = samples.chunks(1_600);
    tenths
        .map(|part| {
            let power = part.iter().map(|sample| sample * sample).sum::<f64>() / part.len() as f64;
            10.0 * power.max(0.01).log10()
        })
        .collect()
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len() as f64
}

#[tokio::test]
async fn music_is_ducked_under_voices() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let mut spec = segments(
        &tools,
        &scratch,
        24,
        &[(40, 96, Transition::Cut), (90, 96, Transition::Cut)],
    )
    .await;
    spec.voices = vec![tone(&tools, &scratch, "voice.wav", "sine=f=500:d=2", 3_000).await];
    let music = tone(&tools, &scratch, "music.wav", "sine=f=2000:d=8", 0)
        .await
        .path;
    for duck_db in [0, 6, 18] {
        spec.music = Some(Music {
            path: music.clone(),
            volume: 0.5,
            duck_db,
        });
        let probe = tools.assemble(&spec, &place, None).await.unwrap();
        assert!(
            probe
                .audio
                .unwrap()
                .duration
                .abs_diff(probe.video.unwrap().duration)
                < Duration::from_millis(50)
        );
        let (voice, music) = (
            loudness(&tools, &place, 500).await,
            loudness(&tools, &place, 2_000).await,
        );
        // The voice is audible only in its time range.
        assert!(mean(&voice[32..48]) > mean(&voice[10..28]) + 25.0, "{voice:?}");
        assert!(mean(&voice[32..48]) > mean(&voice[54..75]) + 25.0);
        let depth = mean(&music[10..28]) - mean(&music[34..48]);
        let wanted = f64::from(duck_db);
        assert!(
            depth > wanted * 0.75 - 0.5 && depth < wanted + 0.7,
            "{duck_db}: {depth}"
        );
        // The music starts and ends quietly.
        assert!(music[0] < music[15] - 3.0 && music[79] < music[60] - 6.0);
        let inspection = tools.inspect(&place, &spec.expected()).await.unwrap();
        assert!(
            inspection.loudness_lufs_tenths.unwrap().abs_diff(-140) < 15,
            "{inspection:?}"
        );
        assert_eq!(inspection.faults(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn output_has_the_target_loudness() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let base = segments(&tools, &scratch, 30, &[(40, 90, Transition::Cut)]).await;
    let loud = tone(&tools, &scratch, "loud.wav", "sine=f=500:d=1.5,volume=18dB", 500).await;
    let quiet = tone(&tools, &scratch, "quiet.wav", "anoisesrc=d=9:a=0.004:seed=1", 0).await;
    let late = AudioClip {
        at: Duration::from_millis(2_500),
        ..quiet.clone()
    };
    let short = AudioClip {
        length: Some(Duration::from_millis(800)),
        ..quiet.clone()
    };
    for (voices, clips) in [
        (vec![loud.clone()], vec![]),
        (vec![], vec![quiet.clone()]),
        (vec![loud.clone(), quiet.clone()], vec![short.clone(), late]),
        (vec![], vec![short]),
    ] {
        let spec = CutSpec {
            voices,
            clips,
            ..base.clone()
        };
        tools.assemble(&spec, &place, None).await.unwrap();
        let inspection = tools.inspect(&place, &spec.expected()).await.unwrap();
        assert_eq!(inspection.faults(), Vec::<String>::new(), "{inspection:?}");
    }
    let silent = tone(
        &tools,
        &scratch,
        "silent.wav",
        "anullsrc=r=48000,atrim=duration=1",
        0,
    )
    .await;
    let spec = CutSpec {
        voices: vec![silent],
        ..base
    };
    tools.assemble(&spec, &place, None).await.unwrap();
    let inspection = tools.inspect(&place, &spec.expected()).await.unwrap();
    assert_eq!(inspection.faults(), ["The audio is silent."]);
}

#[tokio::test]
async fn progress_only_grows_and_ends_at_a_hundred() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let scenes = [(40, 30, Transition::Cut), (90, 30, Transition::Fade)];
    let spec = segments(&tools, &scratch, 30, &scenes).await;
    let reported = Mutex::new(Vec::new());
    let report = |percent| reported.lock().unwrap().push(percent);
    let probe = tools
        .assemble(&spec, &scratch.file("video.mp4"), Some(&report))
        .await
        .unwrap();
    assert_eq!(probe.audio, None);
    let reported = reported.into_inner().unwrap();
    assert!(reported.is_sorted() && reported.len() > 4, "{reported:?}");
    assert_eq!((reported.first(), reported.last()), (Some(&0), Some(&100)));
}

#[tokio::test]
async fn invalid_assemblies_are_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let right = segments(&tools, &scratch, 30, &[(40, 30, Transition::Cut)]).await;
    let voice = tone(&tools, &scratch, "voice.wav", "sine=f=500:d=1", 0).await;
    let garbage = scratch.file("garbage");
    std::fs::write(&garbage, "garbage").unwrap();
    let scene = |frames, segment: &Path| CutScene {
        frames,
        segment: segment.to_owned(),
        ..right.scenes[0].clone()
    };
    let with_voice = |voice: AudioClip| CutSpec {
        voices: vec![voice],
        ..right.clone()
    };
    let with_scenes = |scenes: Vec<CutScene>| CutSpec {
        scenes,
        ..right.clone()
    };
    let segment = right.scenes[0].segment.clone();
    let other_rate = CutSpec {
        rate: 25,
        ..right.clone()
    };
    let other_size = CutSpec {
        size: Dimensions::new(64, 64),
        ..right.clone()
    };
    let music = |volume, duck_db| CutSpec {
        music: Some(Music {
            path: voice.path.clone(),
            volume,
            duck_db,
        }),
        ..right.clone()
    };
    let at = |at, volume| AudioClip {
        at: Duration::from_secs(at),
        volume,
        ..voice.clone()
    };
    for (name, spec) in [
        ("no scene", with_scenes(vec![])),
        ("too many", with_scenes(vec![scene(30, &segment); 61])),
        ("other length", with_scenes(vec![scene(29, &segment)])),
        ("no frames", with_scenes(vec![scene(0, &segment)])),
        ("too long", with_scenes(vec![scene(18_001, &segment)])),
        ("no video", with_scenes(vec![scene(30, &garbage)])),
        ("other rate", other_rate),
        ("other size", other_size),
        ("too loud", with_voice(at(0, 4.1))),
        ("no volume", with_voice(at(0, f64::NAN))),
        ("too late", with_voice(at(601, 1.0))),
        (
            "too many voices",
            CutSpec {
                voices: vec![voice.clone(); 61],
                ..right.clone()
            },
        ),
        (
            "no voice",
            with_voice(AudioClip {
                path: segment.clone(),
                ..voice.clone()
            }),
        ),
        (
            "no sound",
            with_voice(AudioClip {
                path: garbage.clone(),
                ..voice.clone()
            }),
        ),
        ("too deep", music(1.0, 41)),
        ("music too loud", music(5.0, 1)),
    ] {
        let refused = tools.assemble(&spec, &place, None).await;
        let is_refusal = matches!(refused, Err(Error::Input(_) | Error::TooLarge(_)));
        assert!(is_refusal, "{name}: {refused:?}");
    }
    assert!(!place.exists() && !scratch.file("video.mp4.part").exists());
}

#[test]
fn transitions_have_names() {
    for transition in Transition::ALL {
        assert_eq!(Transition::parse(transition.as_str()), Some(transition));
    }
    assert_eq!(Transition::parse("slideleft"), None);
}
