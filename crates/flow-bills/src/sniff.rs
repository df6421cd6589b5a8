//! What a file is, by its first bytes.

use crate::error::FoundFormat;

/// What the first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sniffed {
    /// There are none.
    Empty,
    /// Text, perhaps behind a byte order mark of so many bytes.
    Text {
        /// Length of the mark.
        mark_bytes: usize,
    },
    /// Something compressed that can be read.
    Gzip,
    /// An archive; what is in it remains to be seen.
    Zip,
    /// A document of text that is no table.
    Document(FoundFormat),
    /// Something else.
    Other(FoundFormat),
}

const MAGIC: [(&[u8], Sniffed); 13] = [
    (b"\x1f\x8b", Sniffed::Gzip),
    (b"PK\x03\x04", Sniffed::Zip),
    (b"PK\x05\x06", Sniffed::Zip),
    (b"%PDF-", Sniffed::Other(FoundFormat::Pdf)),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Sniffed::Other(FoundFormat::Xls)),
    (b"Rar!\x1a\x07", Sniffed::Other(FoundFormat::OtherArchive)),
    (b"7z\xbc\xaf\x27\x1c", Sniffed::Other(FoundFormat::OtherArchive)),
    (b"\xfd7zXZ\x00", Sniffed::Other(FoundFormat::OtherArchive)),
    (b"\x28\xb5\x2f\xfd", Sniffed::Other(FoundFormat::OtherArchive)),
    (b"BZh91AY&SY", Sniffed::Other(FoundFormat::OtherArchive)),
    (b"\xff\xfe", Sniffed::Other(FoundFormat::Utf16)),
    (b"\xfe\xff", Sniffed::Other(FoundFormat::Utf16)),
    (b"\x00\x00\xfe\xff", Sniffed::Other(FoundFormat::Utf16)),
];

/// The UTF-8 byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Tells what a file is.
pub(crate) fn sniff(head: &[u8]) -> Sniffed {
    if head.is_empty() {
        return Sniffed::Empty;
    }
    if let Some((_, sniffed)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *sniffed;
    }
    if head.contains(&0) {
        return Sniffed::Other(FoundFormat::Binary);
    }
    let text = head.strip_prefix(MARK).unwrap_or(head);
    match document(text) {
        Some(found) => Sniffed::Document(found),
        None => Sniffed::Text { mark_bytes: head.len() - text.len() },
    }
}

fn document(text: &[u8]) -> Option<FoundFormat> {
    let text = text.trim_ascii_start();
    let (first, rest) = text.split_first()?;
    match first {
        b'<' => {
            let start = text[..text.len().min(1_024)].to_ascii_lowercase();
            let has = |word: &[u8]| start.windows(word.len()).any(|window| window == word);
            let html = has(b"<!doctype html") || has(b"<html") || has(b"<head") || has(b"<body");
            Some(if html { FoundFormat::Html } else { FoundFormat::Xml })
        }
        // A heading in square brackets is no JSON.
        b'{' => Some(FoundFormat::Json),
        b'[' => matches!(rest.trim_ascii_start().first(), Some(b'{' | b'[' | b']' | b'"'))
            .then_some(FoundFormat::Json),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_first_bytes() {
        for (head, expected) in [
            (&b""[..], Sniffed::Empty),
            (b"a,b\n", Sniffed::Text { mark_bytes: 0 }),
            (b"\xef\xbb\xbfa,b\n", Sniffed::Text { mark_bytes: 3 }),
            (b"#\xd6\xa7\xb8\xb6\n", Sniffed::Text { mark_bytes: 0 }),
            (b"[Statement of 2026-11-30]\n", Sniffed::Text { mark_bytes: 0 }),
            (b"\x1f\x8b\x08", Sniffed::Gzip),
            (b"PK\x03\x04....", Sniffed::Zip),
            (b"%PDF-1.7", Sniffed::Other(FoundFormat::Pdf)),
            (b"\xff\xfea\x00", Sniffed::Other(FoundFormat::Utf16)),
            (b"a\x00b\x00", Sniffed::Other(FoundFormat::Binary)),
            (b"\xef\xbb\xbf\n <!DOCTYPE HTML>", Sniffed::Document(FoundFormat::Html)),
            (b"<xml><return_code>", Sniffed::Document(FoundFormat::Xml)),
            (b" {\"code\":1}", Sniffed::Document(FoundFormat::Json)),
            (b"[{\"code\":1}]", Sniffed::Document(FoundFormat::Json)),
        ] {
            assert_eq!(sniff(head), expected, "{}", head.escape_ascii());
        }
    }
}
