//! WAV files with 16-bit samples, read and written without a program. Sizes in a header are limits
//! and not trusted.

use std::iter;
use std::time::Duration;

use tollgate_media_tools::speech::SAMPLE_RATE;

/// Format tag of integer samples, and of headers that state the format in a further field.
const PCM: u16 = 1;
const EXTENSIBLE: u16 = 0xFFFE;
/// Offset of the format tag in an extended header.
const SUBFORMAT_OFFSET: usize = 24;

/// Samples and comment of a WAV file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recording {
    /// Samples of the first channel.
    pub(super) samples: Vec<i16>,
    /// Duration by the number of samples, in whole microseconds.
    pub(super) duration: Duration,
    /// Comment in the metadata of the file.
    pub(super) comment: Option<String>,
}

impl Recording {
    /// Parses a file. Returns `None` for other formats than 16-bit WAV and for files without
    /// samples. A file that ends early, or a stream with an unknown size, has all samples to its
    /// end.
    pub(super) fn parse(file: &[u8]) -> Option<Self> {
        let (head, content) = file.split_at_checked(12)?;
        if !head.starts_with(b"RIFF") || !head.ends_with(b"WAVE") {
            return None;
        }
        let (mut layout, mut data, mut comment) = (None, None, None);
        for (id, content) in chunks(content) {
            match id {
                b"fmt " => layout = layout.or_else(|| Layout::parse(content)),
                b"data" => data = data.or(Some(content)),
                b"LIST" => comment = comment.or_else(|| comment_of(content)),
                _ => {}
            }
        }
        let layout = layout?;
        let frames = data?.chunks_exact(2 * usize::from(layout.channels));
        let first = |frame: &[u8]| frame.first_chunk().map(|bytes| i16::from_le_bytes(*bytes));
        let samples: Vec<i16> = frames.filter_map(first).collect();
        let count = u64::try_from(samples.len()).ok().filter(|count| *count > 0)?;
        let micros = count.saturating_mul(1_000_000) / u64::from(layout.sample_rate);
        Some(Self {
            samples,
            duration: Duration::from_micros(micros),
            comment,
        })
    }
}

/// Returns a WAV file with these samples in one channel at [`SAMPLE_RATE`], and with a comment.
pub(super) fn encode(samples: &[i16], comment: &str) -> Vec<u8> {
    let byte_rate = 2 * SAMPLE_RATE;
    let layout = [
        [PCM, 1].map(u16::to_le_bytes).concat(),
        [SAMPLE_RATE, byte_rate].map(u32::to_le_bytes).concat(),
        [2, 16].map(u16::to_le_bytes).concat(),
    ];
    let info = [b"INFO", &*chunk(b"ICMT", comment.as_bytes())].concat();
    let chunks = [
        b"WAVE".to_vec(),
        chunk(b"fmt ", &layout.concat()),
        chunk(b"LIST", &info),
        chunk(b"data", &raw(samples)),
    ];
    chunk(b"RIFF", &chunks.concat())
}

fn chunk(id: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let padding: &[u8] = if content.len() % 2 == 1 { &[0] } else { &[] };
    [id, &size.to_le_bytes(), content, padding].concat()
}

/// Returns the samples as little-endian bytes.
pub(super) fn raw(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Returns the samples of little-endian bytes. Half a sample at the end is ignored.
pub(super) fn samples(raw: &[u8]) -> Vec<i16> {
    let pairs = raw.chunks_exact(2).filter_map(|pair| pair.first_chunk());
    pairs.map(|pair| i16::from_le_bytes(*pair)).collect()
}

/// Sample layout of a file.
struct Layout {
    channels: u16,
    sample_rate: u32,
}

impl Layout {
    /// Parses a `fmt ` chunk. Returns `None` for other samples than integers of 16 bits.
    fn parse(chunk: &[u8]) -> Option<Self> {
        let short = |at: usize| chunk.get(at..)?.first_chunk().map(|two| u16::from_le_bytes(*two));
        let tag = match short(0)? {
            EXTENSIBLE => short(SUBFORMAT_OFFSET)?,
            tag => tag,
        };
        let channels = short(2)?;
        let sample_rate = u32::from_le_bytes(*chunk.get(4..)?.first_chunk()?);
        let is_known = tag == PCM && short(14)? == 16 && channels > 0 && sample_rate > 0;
        is_known.then_some(Self {
            channels,
            sample_rate,
        })
    }
}

/// Returns the chunks of a file with their ids. The last chunk ends with the file, even if its size
/// is larger.
fn chunks(file: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    let mut rest = file;
    iter::from_fn(move || {
        let (id, after_id) = rest.split_first_chunk::<4>()?;
        let (size, body) = after_id.split_first_chunk::<4>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (content, after) = body.split_at_checked(size).unwrap_or((body, &[]));
        // A chunk of an odd size has a padding byte.
        rest = after.get(size % 2..).unwrap_or_default();
        Some((id, content))
    })
}

/// Returns the comment in a `LIST` chunk.
fn comment_of(chunk: &[u8]) -> Option<String> {
    let items = chunk.strip_prefix(b"INFO")?;
    let (_, comment) = chunks(items).find(|(id, _)| *id == b"ICMT")?;
    let comment = String::from_utf8_lossy(comment);
    Some(comment.trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests;
