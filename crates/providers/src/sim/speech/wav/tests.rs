use proptest::prelude::*;

use super::*;

/// Returns a chunk that states a different size than its own.
fn misstated(id: &[u8; 4], content: &[u8], size: u32) -> Vec<u8> {
    let mut chunk = chunk(id, content);
    chunk[4..8].copy_from_slice(&size.to_le_bytes());
    chunk
}

fn layout(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let block = channels * 2;
    let mut content = [tag, channels].map(u16::to_le_bytes).concat();
    content.extend(rate.to_le_bytes());
    content.extend((rate * u32::from(block)).to_le_bytes());
    content.extend([block, bits].map(u16::to_le_bytes).concat());
    content
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    let content = chunks.concat();
    [&b"RIFF\xFF\xFF\xFF\xFFWAVE"[..], &content].concat()
}

#[test]
fn written_files_are_read() {
    let samples = vec![0, 1, -1, i16::MAX, i16::MIN];
    let read = Recording::parse(&encode(&samples, "odd")).unwrap();
    assert_eq!(
        (read.samples, read.comment.as_deref()),
        (samples.clone(), Some("odd"))
    );
    assert_eq!(read.duration, Duration::from_micros(208));
    assert_eq!(super::samples(&raw(&samples)), samples);
}

#[test]
fn the_first_channel_of_16_bit_files_is_read() {
    let data = raw(&[1, 2, 3, 4, 5]);
    let whole_data = chunk(b"data", &data);
    let plain = || chunk(b"fmt ", &layout(1, 1, 24_000, 16));
    let mut extended = layout(0xFFFE, 2, 48_000, 16);
    extended.extend([22, 0, 16, 0, 3, 0, 0, 0, 1, 0]);
    extended.extend([0; 14]);
    /// Name, chunks of the file, and samples that are read.
    type Case = (&'static str, Vec<Vec<u8>>, Option<&'static [i16]>);
    let cases: [Case; 12] = [
        ("plain", vec![plain(), whole_data.clone()], Some(&[1, 2, 3, 4, 5])),
        (
            "stereo with half a frame",
            vec![chunk(b"fmt ", &layout(1, 2, 24_000, 16)), whole_data.clone()],
            Some(&[1, 3]),
        ),
        (
            "extended",
            vec![chunk(b"fmt ", &extended), whole_data.clone()],
            Some(&[1, 3]),
        ),
        (
            "stream",
            vec![plain(), misstated(b"data", &data, u32::MAX)],
            Some(&[1, 2, 3, 4, 5]),
        ),
        (
            "layout after data",
            vec![whole_data.clone(), plain()],
            Some(&[1, 2, 3, 4, 5]),
        ),
        (
            "odd chunks before",
            vec![
                chunk(b"junk", b"abc"),
                plain(),
                chunk(b"LIST", b"x"),
                whole_data.clone(),
            ],
            Some(&[1, 2, 3, 4, 5]),
        ),
        ("no layout", vec![whole_data.clone()], None),
        ("no samples", vec![plain(), chunk(b"data", b"")], None),
        (
            "8 bits",
            vec![chunk(b"fmt ", &layout(1, 1, 24_000, 8)), whole_data.clone()],
            None,
        ),
        (
            "floats",
            vec![chunk(b"fmt ", &layout(3, 1, 24_000, 16)), whole_data.clone()],
            None,
        ),
        (
            "no channel",
            vec![chunk(b"fmt ", &layout(1, 0, 24_000, 16)), whole_data.clone()],
            None,
        ),
        (
            "no rate",
            vec![chunk(b"fmt ", &layout(1, 1, 0, 16)), whole_data],
            None,
        ),
    ];
    for (name, chunks, samples) in cases {
        let read = Recording::parse(&file(&chunks)).map(|recording| recording.samples);
        assert_eq!(read.as_deref(), samples, "{name}");
    }
    for other in [
        &b""[..],
        b"RIFF",
        b"RIFF\0\0\0\0WEBP",
        b"fLaC",
        b"RIFX\0\0\0\0WAVE",
    ] {
        assert_eq!(Recording::parse(other), None);
    }
}

#[test]
fn comments_are_read() {
    let info = [
        b"INFO".to_vec(),
        chunk(b"ISFT", b"a\0"),
        chunk(b"ICMT", b"said\0"),
    ]
    .concat();
    let file = file(&[
        chunk(b"LIST", b"adtl"),
        chunk(b"LIST", &info),
        chunk(b"fmt ", &layout(1, 1, 8_000, 16)),
        chunk(b"data", &[0; 16_000]),
    ]);
    let recording = Recording::parse(&file).unwrap();
    assert_eq!(recording.comment.as_deref(), Some("said"));
    assert_eq!(recording.duration, Duration::from_secs(1));
}

proptest! {
    /// Files with random sizes, cuts and bytes are read or refused, without a panic.
    #[test]
    fn hostile_files_are_read_to_their_end(
        cut in 0..=200_usize,
        sizes in any::<[u32; 3]>(),
        noise in prop::collection::vec((0..200_usize, any::<u8>()), 0..6),
    ) {
        let [first, second, third] = sizes;
        let mut bytes = file(&[
            misstated(b"fmt ", &layout(1, 2, 24_000, 16), first % 64),
            misstated(b"LIST", b"INFOICMT\x04\0\0\0said", second % 64),
            misstated(b"data", &[7; 100], third),
        ]);
        for (at, byte) in noise {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(cut);
        if let Some(recording) = Recording::parse(&bytes) {
            prop_assert!(!recording.samples.is_empty() && recording.samples.len() <= 100);
        }
    }
}
