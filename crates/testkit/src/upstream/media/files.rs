//! Generated files: small images and videos of any size, and their URLs.

#![expect(
    clippy::expect_used,
    reason = "only tests use this: without the program there is no video to test with"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Making, MediaServer, not_found};

const PNG_BEGIN: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Maximum size of a stored block, in bytes (RFC 1951).
const LONGEST_BLOCK: usize = 65_535;

pub(super) fn path(making: &Making, index: u32) -> String {
    format!("/media/{}/{index}", making.id)
}

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let rest = request.bare_path().strip_prefix("/media/")?;
    let (id, index) = rest.split_once('/')?;
    let found = media_server.find(id).filter(|_| request.method == "GET");
    Some(match (found, index.parse()) {
        (Some(making), Ok(index)) if index < making.count => bytes(making, index),
        _ => not_found(),
    })
}

pub(super) fn bytes(making: &Making, index: u32) -> Reply {
    let kind = if making.is_video { "video/mp4" } else { "image/png" };
    Reply::body(200, kind, making.output(index))
}

/// Returns a PNG of this size in black and white. Each `shade` results in a different image.
pub fn image(width: u32, height: u32, shade: u8) -> Vec<u8> {
    let mut rows = Vec::new();
    for _ in 0..height {
        rows.push(0);
        rows.resize(rows.len() + width.div_ceil(8) as usize, shade);
    }
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    // One bit per pixel, grayscale, and the only methods that PNG defines.
    header.extend([1, 0, 0, 0, 0]);
    let mut file = PNG_BEGIN.to_vec();
    for (name, body) in [(b"IHDR", header), (b"IDAT", zlib(&rows)), (b"IEND", Vec::new())] {
        file.extend((body.len() as u32).to_be_bytes());
        let start = file.len();
        file.extend(name);
        file.extend(body);
        let sum = crc32fast::hash(&file[start..]);
        file.extend(sum.to_be_bytes());
    }
    file
}

/// Returns a zlib stream of stored blocks (RFC 1950).
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(LONGEST_BLOCK).peekable();
    if blocks.peek().is_none() {
        stream.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    stream.extend(((b << 16) | a).to_be_bytes());
    stream
}

/// Returns a video of one color with this size and length. Each video is generated once.
///
/// # Panics
/// If ffmpeg is not installed.
pub fn video(width: u32, height: u32, seconds: u32) -> Vec<u8> {
    static NON_TOKENS: Mutex<BTreeMap<(u32, u32, u32), Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut made = NON_TOKENS.lock().unwrap_or_else(PoisonError::into_inner);
    let video = made.entry((width, height, seconds));
    video.or_insert_with(|| shoot(width, height, seconds)).clone()
}

/// Returns the length of a video in a data URL, in seconds; 0 for any other URL.
pub(super) fn length(url: &str) -> u32 {
    let Some((_, encoded)) = url.split_once(";base64,") else {
        return 0;
    };
    let video = STANDARD.decode(encoded).expect("a video in base64");
    let mut position = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    position
        .write_all(&video)
        .expect("a temporary file can be written");
    let probe = Command::new("ffprobe")
        .args([
            "-loglevel",
            "error",
            "-show_entries",
            "format=duration",
            "-of",
            "csv=p=0",
        ])
        .arg(position.path())
        .output()
        .expect("ffprobe is installed: apt-get install ffmpeg");
    let seconds: f64 = String::from_utf8_lossy(&probe.stdout)
        .trim()
        .parse()
        .unwrap_or(0.0);
    seconds.round() as u32
}

fn shoot(width: u32, height: u32, seconds: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let position = folder.path().join("video.mp4");
    let source = format!("color=c=gray:s={width}x{height}:r=10:d={}", seconds.max(1));
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", &source])
        .args([
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-pix_fmt",
            "yuv420p",
            "-movflags",
            "+faststart",
        ])
        .arg(&position)
        .status()
        .expect("ffmpeg is installed: apt-get install ffmpeg");
    assert!(made.success(), "ffmpeg has made no video of {width}x{height}");
    std::fs::read(&position).expect("the video can be read")
}
