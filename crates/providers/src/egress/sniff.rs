//! Whether bytes are what their sender says they are: by how files of each type begin.

/// How files begin, whatever they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Png,
    Jpeg,
    Gif,
    Webp,
    Wav,
    Mpeg,
    Flac,
    Ogg,
    Aac,
    /// MP4 and its relatives, which hold sound, films or pictures.
    IsoMedia,
    /// Matroska and WebM, which hold sound or films.
    Matroska,
    Pdf,
    /// Text of any kind.
    Text,
}

/// Media types, the first of each row as it is handed out, the others as it is also called.
const TYPES: &[(&[&str], Begins)] = &[
    (&["image/png"], Begins::Png),
    (&["image/jpeg", "image/jpg", "image/pjpeg"], Begins::Jpeg),
    (&["image/gif"], Begins::Gif),
    (&["image/webp"], Begins::Webp),
    (
        &["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
        Begins::Wav,
    ),
    (&["audio/mpeg", "audio/mp3", "audio/x-mp3"], Begins::Mpeg),
    (&["audio/flac", "audio/x-flac"], Begins::Flac),
    (&["audio/ogg", "application/ogg", "audio/opus"], Begins::Ogg),
    (&["audio/aac", "audio/x-aac"], Begins::Aac),
    (&["audio/mp4", "audio/x-m4a", "audio/m4a"], Begins::IsoMedia),
    (&["audio/webm"], Begins::Matroska),
    (&["video/mp4"], Begins::IsoMedia),
    (&["video/quicktime"], Begins::IsoMedia),
    (&["video/3gpp"], Begins::IsoMedia),
    (&["video/webm"], Begins::Matroska),
    (&["application/pdf", "application/x-pdf"], Begins::Pdf),
    (&["text/plain"], Begins::Text),
    (&["text/markdown"], Begins::Text),
    (&["text/csv"], Begins::Text),
    (&["text/html"], Begins::Text),
];

/// Said by stores that know nothing about what they keep.
const UNKNOWN: &[&str] = &["", "application/octet-stream", "binary/octet-stream"];

/// The type of these bytes, when it is one of `wanted`. What their sender declares must agree with how they begin; when
/// it declares nothing, how they begin decides.
pub(super) fn media_type(bytes: &[u8], declared: &str, wanted: &[&'static str]) -> Option<&'static str> {
    let is_known = !UNKNOWN.contains(&declared);
    let row = TYPES.iter().find(|(names, begins)| {
        let fits = if is_known {
            names.contains(&declared)
        } else {
            // Nothing tells text from bytes that happen to be text.
            *begins != Begins::Text
        };
        fits && wanted.contains(&names[0]) && begins.matches(bytes)
    })?;
    Some(row.0[0])
}

impl Begins {
    /// Magic numbers as in the registrations of the types, and of the "MIME Sniffing" standard of WHATWG.
    fn matches(self, bytes: &[u8]) -> bool {
        let starts = |magic: &[u8]| bytes.starts_with(magic);
        let has_at = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
        match self {
            Begins::Png => starts(b"\x89PNG\r\n\x1a\n"),
            Begins::Jpeg => starts(b"\xff\xd8\xff"),
            Begins::Gif => starts(b"GIF87a") || starts(b"GIF89a"),
            Begins::Webp => starts(b"RIFF") && has_at(8, b"WEBP"),
            Begins::Wav => starts(b"RIFF") && has_at(8, b"WAVE"),
            Begins::Mpeg => starts(b"ID3") || is_frame(bytes, |layer| layer != 0),
            Begins::Flac => starts(b"fLaC"),
            Begins::Ogg => starts(b"OggS"),
            Begins::Aac => is_frame(bytes, |layer| layer == 0),
            Begins::IsoMedia => has_at(4, b"ftyp"),
            Begins::Matroska => starts(b"\x1a\x45\xdf\xa3"),
            Begins::Pdf => starts(b"%PDF-"),
            Begins::Text => !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok(),
        }
    }
}

/// Eleven or twelve set bits, then the version, then the layer: a frame of MPEG audio, or of ADTS with layer 0.
fn is_frame(bytes: &[u8], layer: impl Fn(u8) -> bool) -> bool {
    matches!(bytes, [0xff, second, ..] if second & 0xe0 == 0xe0 && layer((second >> 1) & 0b11))
}
