//! What is made: small pictures and films of any size, and the addresses where they are.

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Makers, Making, not_found};

const PNG_BEGIN: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The most bytes of a stored block (RFC 1951).
const LONGEST_BLOCK: usize = 65_535;
/// Frames of a second of film.
const RATE: u32 = 8;
/// No turn and no stretch, in fixed point.
const MATRIX: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

pub(super) fn path(making: &Making, index: u32) -> String {
    format!("/media/{}/{index}", making.id)
}

pub(super) fn reply(makers: &mut Makers, request: &ReceivedRequest) -> Option<Reply> {
    let rest = request.bare_path().strip_prefix("/media/")?;
    let (id, index) = rest.split_once('/')?;
    let found = makers.find(id).filter(|_| request.method == "GET");
    Some(match (found, index.parse()) {
        (Some(making), Ok(index)) if index < making.count => bytes(making, index),
        _ => not_found(),
    })
}

pub(super) fn bytes(making: &Making, index: u32) -> Reply {
    let kind = if making.is_film { "video/mp4" } else { "image/png" };
    Reply::body(200, kind, making.piece(index))
}

/// A PNG of this size in black and white; another `shade` is another picture.
pub fn picture(width: u32, height: u32, shade: u8) -> Vec<u8> {
    let mut rows = Vec::new();
    for _ in 0..height {
        rows.push(0);
        rows.resize(rows.len() + width.div_ceil(8) as usize, shade);
    }
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    // One bit, grey, and the only methods there are.
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

/// A stream of stored blocks (RFC 1950).
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

/// An MP4 whose boxes say this size and length (ISO 14496-12). Its frames have nothing in them that could be seen.
pub fn film(width: u32, height: u32, seconds: u32) -> Vec<u8> {
    let frames = seconds.max(1) * RATE;
    let length = seconds.max(1) * 1_000;
    let begin = boxed(b"ftyp", &[b"isom", &words(&[0x200]), b"isomavc1mp41"]);
    // The place of the frames follows from the size of what is before them, which does not depend on it.
    let before = begin.len() + movie(width, height, frames, length, 0).len();
    let mut file = begin;
    file.extend(movie(width, height, frames, length, before as u32 + 8));
    file.extend(boxed(b"mdat", &[&vec![0; frames as usize * 4]]));
    file
}

fn movie(width: u32, height: u32, frames: u32, length: u32, place: u32) -> Vec<u8> {
    let header = [
        words(&[0, 0, 0, 1_000, length, 0x1_0000, 0x100_0000, 0, 0]),
        words(&MATRIX),
        words(&[0; 6]),
        words(&[2]),
    ];
    let track = [
        words(&[7, 0, 0, 1, 0, length, 0, 0, 0, 0]),
        words(&MATRIX),
        words(&[width << 16, height << 16]),
    ];
    let entry = [
        words(&[0, 1, 0, 0, 0, 0]),
        words(&[(width << 16) | height, 0x48_0000, 0x48_0000, 0, 0x1_0000]),
        words(&[0; 7]),
        words(&[0x18_ffff]),
    ];
    let entry = boxed(b"avc1", &[&entry.concat()]);
    let table = [
        boxed(b"stsd", &[&words(&[0, 1]), &entry]),
        boxed(b"stts", &[&words(&[0, 1, frames, 1_000 / RATE])]),
        boxed(b"stsc", &[&words(&[0, 1, 1, frames, 1])]),
        boxed(b"stsz", &[&words(&[0, 4, frames])]),
        boxed(b"stco", &[&words(&[0, 1, place])]),
    ];
    let here = boxed(b"dref", &[&words(&[0, 1]), &boxed(b"url ", &[&words(&[1])])]);
    let inner = [
        boxed(b"vmhd", &[&words(&[1, 0, 0])]),
        boxed(b"dinf", &[&here]),
        boxed(b"stbl", &[&table.concat()]),
    ];
    let media = [
        boxed(b"mdhd", &[&words(&[0, 0, 0, 1_000, length, 0x55c4_0000])]),
        boxed(
            b"hdlr",
            &[&words(&[0, 0]), b"vide", &words(&[0, 0, 0]), b"film\0"],
        ),
        boxed(b"minf", &[&inner.concat()]),
    ];
    let track = [
        boxed(b"tkhd", &[&track.concat()]),
        boxed(b"mdia", &[&media.concat()]),
    ];
    let header = boxed(b"mvhd", &[&header.concat()]);
    boxed(b"moov", &[&header, &boxed(b"trak", &[&track.concat()])])
}

fn boxed(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = (length as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(name);
    parts.iter().for_each(|part| bytes.extend(*part));
    bytes
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}
