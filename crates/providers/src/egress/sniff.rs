//! Compares the declared media type of bytes with their magic numbers.

use tollgate_formats::image::image_type;

/// Magic number of a file type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSignature {
    /// An image of this media type.
    Image(&'static str),
    Wav,
    Mpeg,
    Flac,
    Ogg,
    Aac,
    /// MP4 and related containers of audio, video or images.
    IsoMedia,
    /// Matroska and WebM, containers of audio or video.
    Matroska,
    Pdf,
    /// Text, which has no magic number.
    Text,
}

/// Media types: the first of each row is the standard name, the others are aliases.
const TYPES: &[(&[&str], FileSignature)] = &[
    (&["image/png"], FileSignature::Image("image/png")),
    (
        &["image/jpeg", "image/jpg", "image/pjpeg"],
        FileSignature::Image("image/jpeg"),
    ),
    (&["image/gif"], FileSignature::Image("image/gif")),
    (&["image/webp"], FileSignature::Image("image/webp")),
    (
        &["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
        FileSignature::Wav,
    ),
    (&["audio/mpeg", "audio/mp3", "audio/x-mp3"], FileSignature::Mpeg),
    (&["audio/flac", "audio/x-flac"], FileSignature::Flac),
    (
        &["audio/ogg", "application/ogg", "audio/opus"],
        FileSignature::Ogg,
    ),
    (&["audio/aac", "audio/x-aac"], FileSignature::Aac),
    (
        &["audio/mp4", "audio/x-m4a", "audio/m4a"],
        FileSignature::IsoMedia,
    ),
    (&["audio/webm"], FileSignature::Matroska),
    (&["video/mp4"], FileSignature::IsoMedia),
    (&["video/quicktime"], FileSignature::IsoMedia),
    (&["video/3gpp"], FileSignature::IsoMedia),
    (&["video/webm"], FileSignature::Matroska),
    (&["application/pdf", "application/x-pdf"], FileSignature::Pdf),
    (&["text/plain"], FileSignature::Text),
    (&["text/markdown"], FileSignature::Text),
    (&["text/csv"], FileSignature::Text),
    (&["text/html"], FileSignature::Text),
];

/// Media types that file stores declare for files of unknown type.
const UNKNOWN: &[&str] = &["", "application/octet-stream", "binary/octet-stream"];

/// Returns the standard media type of these bytes if `wanted` contains it. The declared type must
/// match the magic number; without a declared type, the magic number decides. Text types must be
/// declared.
pub(super) fn media_type(bytes: &[u8], declared: &str, wanted: &[&'static str]) -> Option<&'static str> {
    let is_known = !UNKNOWN.contains(&declared);
    let row = TYPES.iter().find(|(names, signature)| {
        let fits = if is_known {
            names.contains(&declared)
        } else {
            // Binary data may look like text, so text requires a declared type.
            *signature != FileSignature::Text
        };
        fits && wanted.contains(&names[0]) && signature.matches(bytes)
    })?;
    Some(row.0[0])
}

impl FileSignature {
    /// Whether the bytes start with the magic number, as in the registrations of the media types
    /// and in WHATWG's "MIME Sniffing" standard. For text, whether they are UTF-8 without a NUL.
    fn matches(self, bytes: &[u8]) -> bool {
        let starts = |magic: &[u8]| bytes.starts_with(magic);
        let has_at = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
        match self {
            FileSignature::Image(media_type) => image_type(bytes) == Some(media_type),
            FileSignature::Wav => starts(b"RIFF") && has_at(8, b"WAVE"),
            FileSignature::Mpeg => starts(b"ID3") || is_frame(bytes, |layer| layer != 0),
            FileSignature::Flac => starts(b"fLaC"),
            FileSignature::Ogg => starts(b"OggS"),
            FileSignature::Aac => is_frame(bytes, |layer| layer == 0),
            FileSignature::IsoMedia => has_at(4, b"ftyp"),
            FileSignature::Matroska => starts(b"\x1a\x45\xdf\xa3"),
            FileSignature::Pdf => starts(b"%PDF-"),
            FileSignature::Text => !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok(),
        }
    }
}

/// Whether a frame of MPEG audio or ADTS starts here, with a layer that `layer` accepts. The 11
/// sync bits precede the version and the layer; the layer of ADTS is 0.
fn is_frame(bytes: &[u8], layer: impl Fn(u8) -> bool) -> bool {
    matches!(bytes, [0xff, second, ..] if second & 0xe0 == 0xe0 && layer((second >> 1) & 0b11))
}
