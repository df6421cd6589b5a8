//! What a file is, how it is packed, and what its sender vouched for: the same for every layout.

use flow_bills::{BillError, BillFormat, BillSink, FoundFormat, QuarantinedRow, SinkError, read_bill};
use sha2::{Digest as _, Sha256};

use crate::fixtures::{Kept, gz, read, refused, rules, zipped, zipped_on_the_fly};
use crate::{alipay, ledger, stripe, wechat};

fn formats() -> Vec<(BillFormat, Vec<u8>)> {
    vec![
        (wechat::format(), wechat::all().into_bytes()),
        (stripe::format(), stripe::report().into_bytes()),
        (BillFormat::AlipayDetail, crate::fixtures::gbk(&alipay::detail())),
        (ledger::FORMAT, ledger::sealed("#ledger-csv,1,2026-11-29,Asia/Shanghai\nkind,order_no,trade_order_no,amount_minor,currency,user_id,channel_ref,at,status\n#rows,0\n").into_bytes()),
    ]
}

#[test]
fn another_file_is_named_as_what_it_is() {
    let workbook = zipped(&[("[Content_Types].xml", b"<Types/>"), ("xl/workbook.xml", b"<w/>")]);
    let bill = wechat::all();
    let mut encrypted = zipped(&[("bill.csv", bill.as_bytes())]);
    set_flag(&mut encrypted);
    for (file, found) in [
        (workbook, FoundFormat::Xlsx),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....".to_vec(), FoundFormat::Xls),
        (b"<!DOCTYPE html><html>log in</html>".to_vec(), FoundFormat::Html),
        (gz("\n<HTML>502 Bad Gateway</HTML>"), FoundFormat::Html),
        (b"<?xml version=\"1.0\"?><Error/>".to_vec(), FoundFormat::Xml),
        (b"{\"error\":\"expired\"}".to_vec(), FoundFormat::Json),
        (b"%PDF-1.7".to_vec(), FoundFormat::Pdf),
        (encrypted, FoundFormat::EncryptedZip),
        (zipped(&[]), FoundFormat::Zip),
        (gz(zipped(&[("bill.csv", bill.as_bytes())])), FoundFormat::Zip),
        (gz(gz(&bill)), FoundFormat::Gzip),
        (zipped(&[("bill.csv.gz", &gz(&bill))]), FoundFormat::Gzip),
        (b"7z\xbc\xaf\x27\x1c".to_vec(), FoundFormat::OtherArchive),
        (b"\xff\xfea\x00,\x00".to_vec(), FoundFormat::Utf16),
        (b"\x7fELF\x02\x00".to_vec(), FoundFormat::Binary),
    ] {
        for (format, _) in formats() {
            let error = refused(&format, &rules(), &file);
            let BillError::NotThisFormat { found: seen, wanted } = error else {
                panic!("{found}: {error}");
            };
            assert_eq!(wanted, format.name());
            assert_eq!(seen, found, "{}", format.name());
        }
    }
}

/// Says of every entry that it is encrypted.
fn set_flag(archive: &mut [u8]) {
    for (signature, offset) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        let place = archive.windows(4).position(|window| window == signature).unwrap();
        archive[place + offset] |= 1;
    }
}

#[test]
fn nothing_at_all_is_no_empty_day() {
    for (format, _) in formats() {
        for nothing in [Vec::new(), gz(""), zipped(&[("bill.csv", b"")])] {
            assert!(matches!(refused(&format, &rules(), nothing), BillError::Empty), "{}", format.name());
        }
        assert_eq!(refused(&format, &rules(), "\n\n").code(), "TRUNCATED", "{}", format.name());
    }
}

#[test]
fn compressed_bills_are_whole_or_refused() {
    for (format, bill) in formats() {
        let expected = read(&format, &rules(), &bill).1.told();
        let archives = [zipped(&[("folder/bill.csv", &bill)]), zipped_on_the_fly("bill.csv", &bill)];
        for packed in archives.into_iter().chain([gz(&bill)]) {
            assert_eq!(read(&format, &rules(), &packed).1.told(), expected, "{}", format.name());
            for end in (1..packed.len()).step_by(7).chain([packed.len() - 1]) {
                let error = refused(&format, &rules(), &packed[..end]);
                let code = error.code();
                assert!(
                    matches!(
                        code,
                        "TRUNCATED" | "CORRUPT" | "NOT_THIS_FORMAT" | "HEADER_MISSING" | "ANOTHER_BILL"
                    ),
                    "{} cut at {end} of {}: {error}",
                    format.name(),
                    packed.len()
                );
                // From the magic number on it is known to be cut off.
                assert!(end < 4 || code == "TRUNCATED", "{} cut at {end}: {error}", format.name());
            }
        }
        // Two members are one file; a stranger behind the first is not.
        let (start, rest) = bill.split_at(bill.len() / 2);
        let members = [gz(start), gz(rest)].concat();
        assert_eq!(read(&format, &rules(), members).1.told(), expected);
        let stranger = [gz(&bill), b"a stranger after it".to_vec()].concat();
        assert_eq!(refused(&format, &rules(), stranger).code(), "CORRUPT");
    }
}

#[test]
fn a_changed_byte_of_compressed_data_is_noticed() {
    let bill = stripe::report();
    let told = read(&stripe::format(), &rules(), &bill).1;
    // Behind gzip's own header.
    for (packed, start) in [(gz(&bill), 10), (zipped(&[("bill.csv", bill.as_bytes())]), 0)] {
        let mut unnoticed = 0;
        for place in start..packed.len() {
            let mut changed = packed.clone();
            changed[place] ^= 0x10;
            let mut kept = Kept::default();
            match read_bill(&stripe::format(), &rules(), &changed[..], &mut kept) {
                Ok(_) => {
                    assert_eq!(kept, told, "byte {place}");
                    unnoticed += 1;
                }
                Err(error) => assert_ne!(error.code(), "IO", "byte {place}: {error}"),
            }
        }
        // Bits that fill up the last byte of the data, times and names in an archive's directory: they mean nothing here.
        assert!(
            unnoticed < packed.len() / 4 && (start == 0 || unnoticed <= 1),
            "{unnoticed} of {}",
            packed.len()
        );
    }
}

#[test]
fn what_the_sender_vouched_for_must_hold() {
    for (format, bill) in formats() {
        for packed in [bill.clone(), gz(&bill)] {
            let mut vouched = rules();
            vouched.expected.sha256 = Some(Sha256::digest(&packed).into());
            vouched.expected.bytes = Some(packed.len() as u64);
            let (summary, _) = read(&format, &vouched, &packed);
            assert_eq!(Some(summary.sha256), vouched.expected.sha256);
            vouched.expected.bytes = Some(packed.len() as u64 + 1);
            assert_eq!(refused(&format, &vouched, &packed).code(), "LENGTH_MISMATCH");
            vouched.expected.bytes = None;
            vouched.expected.sha256 = Some([7; 32]);
            assert_eq!(refused(&format, &vouched, &packed).code(), "DIGEST_MISMATCH");
        }
    }
}

#[test]
fn bills_that_are_too_large_are_refused_before_they_fill_anything() {
    let mut small = rules();
    small.limits.uncompressed_bytes = 10_000;
    let bomb = vec![b'x'; 1_000_000];
    for packed in [bomb.clone(), gz(&bomb), zipped(&[("bill.csv", &bomb)])] {
        for (format, bill) in formats() {
            let error = refused(&format, &small, &packed);
            assert!(
                matches!(error, BillError::TooLarge { limit_bytes: 10_000 }),
                "{}: {error}",
                format.name()
            );
            assert!(read(&format, &small, &bill).0.bytes < 10_000);
        }
    }
}

/// Keeps so many entries and no more.
struct Full(usize);

impl BillSink for Full {
    fn entry(&mut self, _entry: flow_bills::BillEntry) -> Result<(), SinkError> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| SinkError::new("the disk is full"))?;
        Ok(())
    }

    fn quarantined(&mut self, _row: QuarantinedRow) -> Result<(), SinkError> {
        Err(SinkError::new("the disk is full"))
    }
}

#[test]
fn a_sink_that_fails_ends_the_reading() {
    let bill = wechat::all();
    let ended = read_bill(&wechat::format(), &rules(), bill.as_bytes(), &mut Full(2));
    assert!(
        matches!(&ended, Err(error @ BillError::Sink(_)) if error.to_string().contains("the disk is full"))
    );
    assert!(read_bill(&wechat::format(), &rules(), bill.as_bytes(), &mut Full(3)).is_ok());
}

/// A transfer that breaks.
struct Broken<'a>(&'a [u8], std::io::ErrorKind);

impl std::io::Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(self.1.into()),
            read => Ok(read),
        }
    }
}

#[test]
fn a_transfer_that_breaks_is_no_end() {
    for (format, bill) in formats() {
        for packed in [bill.clone(), gz(&bill), zipped(&[("bill.csv", &bill)])] {
            let broken = |kind| read_bill(&format, &rules(), Broken(&packed, kind), &mut Kept::default());
            let early = broken(std::io::ErrorKind::UnexpectedEof).unwrap_err();
            assert_eq!(early.code(), "TRUNCATED", "{}: {early}", format.name());
            let reset = broken(std::io::ErrorKind::ConnectionReset).unwrap_err();
            assert_eq!(reset.code(), "IO", "{}: {reset}", format.name());
        }
    }
}
