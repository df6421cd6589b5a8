//! Records out of text that was put together badly.

use proptest::prelude::*;

use super::*;

const PLAIN: Dialect = Dialect { delimiter: b',', quoting: false, digest: false };
const QUOTED: Dialect = Dialect { delimiter: b',', quoting: true, digest: false };
const UTF8: Text = Text { encoding: "UTF-8", transcoded: false };

fn limits() -> Limits {
    Limits { record_bytes: 40, columns: 4, ..Limits::default() }
}

/// Line and cells of every record; a faulty one shows its code instead.
fn read(text: &[u8], dialect: Dialect) -> Result<Vec<(u64, Vec<String>)>, BillError> {
    // A reader that hands out one byte at a time finds every assumption about buffers.
    let slow = Trickle(text);
    let (mut records, mut record) = (Records::new(slow, dialect, UTF8, limits()), Record::default());
    let mut all = Vec::new();
    while records.next(&mut record)? {
        let cells = match record.fault() {
            Some(fault) => vec![fault.code().to_owned()],
            None => (0..record.len()).map(|index| record.cell(index).to_owned()).collect(),
        };
        all.push((record.line, cells));
    }
    Ok(all)
}

struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        buffer[0] = *first;
        self.0 = rest;
        Ok(1)
    }
}

fn rows(expected: &[(u64, &[&str])]) -> Vec<(u64, Vec<String>)> {
    expected
        .iter()
        .map(|(line, cells)| (*line, cells.iter().map(|cell| (*cell).to_owned()).collect()))
        .collect()
}

#[test]
fn line_ends_may_be_mixed() {
    let text = b"a,b\r\nc,d\ne,f\rg,h\n\n\r\ni,j";
    let expected =
        rows(&[(1, &["a", "b"]), (2, &["c", "d"]), (3, &["e", "f"]), (4, &["g", "h"]), (7, &["i", "j"])]);
    assert_eq!(read(text, PLAIN).unwrap(), expected);
    assert_eq!(read(text, QUOTED).unwrap(), expected);
}

#[test]
fn a_mark_is_a_character_where_nothing_is_quoted() {
    let text = b"a,5\" pipe\nb,\"x\nc,d\n";
    let expected = rows(&[(1, &["a", "5\" pipe"]), (2, &["b", "\"x"]), (3, &["c", "d"])]);
    assert_eq!(read(text, PLAIN).unwrap(), expected);
}

#[test]
fn quoted_cells_hold_anything() {
    let text = b"\"a,1\",\"say \"\"hi\"\"\"\n\"two\r\nlines\",b\nc,\n";
    let expected = rows(&[(1, &["a,1", "say \"hi\""]), (2, &["two\r\nlines", "b"]), (4, &["c", ""])]);
    assert_eq!(read(text, QUOTED).unwrap(), expected);
}

#[test]
fn stray_marks_never_swallow_in_silence() {
    // Inside of a cell, and behind a closed one: that row alone.
    for row in ["a,5\"\"pipe", "\"a\"b,c", "a,\"b\" ,c", "a\"\",b"] {
        let text = format!("{row}\nc,d\n");
        let expected = rows(&[(1, &["QUOTES"]), (2, &["c", "d"])]);
        assert_eq!(read(text.as_bytes(), QUOTED).unwrap(), expected, "{row}");
    }
    // One that opens and never closes: the file.
    let open = read(b"a,\"b\nc,d\n", QUOTED);
    assert!(matches!(open, Err(BillError::Truncated { .. })), "{open:?}");
    let long = format!("a,\"b\n{}", "c,d\n".repeat(100));
    let swallowed = read(long.as_bytes(), QUOTED);
    assert!(matches!(swallowed, Err(BillError::RecordTooLong { line: 1, .. })), "{swallowed:?}");
}

#[test]
fn a_long_line_costs_itself_alone() {
    let text = format!("a,b\n{}\nc,d\n", "x".repeat(500));
    assert_eq!(
        read(text.as_bytes(), PLAIN).unwrap(),
        rows(&[(1, &["a", "b"]), (2, &["TOO_LONG"]), (3, &["c", "d"])])
    );
    let just = format!("a\n{}\n", "x".repeat(40));
    assert_eq!(read(just.as_bytes(), PLAIN).unwrap().len(), 2);
}

#[test]
fn bytes_that_are_no_text_cost_their_line() {
    let text = b"a,\xff\nc,d\n";
    assert_eq!(read(text, PLAIN).unwrap(), rows(&[(1, &["ENCODING"]), (2, &["c", "d"])]));
}

#[test]
fn too_many_cells_are_seen_as_such() {
    let read = read(b"1,2,3,4,5,6,7\n", PLAIN).unwrap();
    assert_eq!(read, rows(&[(1, &["1", "2", "3", "4", "5,6,7"])]));
}

#[test]
fn the_digest_is_that_of_the_bytes_before() {
    let dialect = Dialect { digest: true, ..QUOTED };
    let text = b"#a\r\nb,\"c\nd\"\n#e";
    let (mut records, mut record) = (Records::new(&text[..], dialect, UTF8, limits()), Record::default());
    let mut digests = Vec::new();
    while records.next(&mut record).unwrap() {
        digests.extend(record.digest_before);
    }
    let of = |bytes: &[u8]| -> [u8; 32] { Sha256::digest(bytes).into() };
    assert_eq!(digests, [of(b""), of(&text[..text.len() - 2])]);
    assert!(!record.terminated);
}

#[test]
fn what_is_shown_is_cut_between_characters() {
    let mut records = Records::new("支付,x\n".as_bytes(), PLAIN, UTF8, limits());
    let mut record = Record::default();
    assert!(records.next(&mut record).unwrap());
    assert_eq!(record.shown(100), "支付,x");
    assert_eq!(record.shown(4), "支…");
}

proptest! {
    #[test]
    fn quoted_cells_survive(cells in prop::collection::vec("[a-z\",\r\n ]{0,6}", 1..4)) {
        let quoted: Vec<String> = cells.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
        prop_assume!(quoted.join(",").len() < 40);
        let text = quoted.join(",") + "\n";
        let read = read(text.as_bytes(), QUOTED).unwrap();
        let trimmed: Vec<String> = cells.iter().map(|cell| cell.trim().to_owned()).collect();
        prop_assert_eq!(&read[0].1, &trimmed);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200)) {
        let _plain = read(&bytes, PLAIN);
        let _quoted = read(&bytes, QUOTED);
    }
}
