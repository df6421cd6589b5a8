//! Reads the machine's apt sources and derives the entry for Debian's `sid` from them: same archive, same key, other
//! suite. Pure text work; nothing is read or written here.

/// One entry of the machine's apt sources that offers packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// A key ring's path, or a whole key with its continuation lines.
    signed_by: Option<String>,
}

/// Reads a `.list` file (one entry a line).
pub(super) fn parse_one_line_style(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?.strip_prefix(char::is_whitespace)?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    let signed_by = options
        .split_whitespace()
        .find_map(|option| option.strip_prefix("signed-by="))
        .map(|value| value.replace(',', " "));
    Some(Source { uris: vec![uri], suites: vec![suite], components: words.collect(), signed_by })
}

/// Reads a `.sources` file (deb822 stanzas).
pub(super) fn parse_deb822_style(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut stanza: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            sources.extend(stanza_to_source(&std::mem::take(&mut stanza)));
        } else if line.starts_with('#') {
            // A comment, allowed between the fields of a stanza.
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanza.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    sources
}

fn stanza_to_source(stanza: &[(String, String)]) -> Option<Source> {
    let field =
        |wanted: &str| stanza.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let words = |wanted: &str| -> Vec<String> {
        field(wanted).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    if matches!(field("enabled"), Some("no" | "false" | "off" | "0"))
        || !words("types").contains(&"deb".to_owned())
    {
        return None;
    }
    Some(Source {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").map(str::to_owned),
    })
}

/// The first entry that is Debian's own archive for the release `codename`.
///
/// Other vendors also publish `main` for a Debian release, so the archive is known by its key ring or by the last
/// segment of its address.
pub(super) fn debian_archive<'a>(sources: &'a [Source], codename: &str) -> Option<&'a Source> {
    sources.iter().find(|source| {
        source.suites.iter().any(|suite| suite == codename)
            && source.components.iter().any(|component| component == "main")
            && !source.uris.is_empty()
            && is_debians(source)
    })
}

fn is_debians(source: &Source) -> bool {
    let by_key = source.signed_by.as_ref().is_some_and(|key| key.contains("debian-archive"));
    let by_address = source.uris.iter().all(|uri| {
        let uri = uri.trim_end_matches('/');
        uri.ends_with("/debian") || uri.starts_with("mirror+file:")
    });
    by_key || (source.signed_by.is_none() && by_address)
}

/// The deb822 stanza for `sid` at the same archive.
pub(super) fn sid_stanza(archive: &Source) -> String {
    let mut stanza = format!("Types: deb\nURIs: {}\nSuites: sid\nComponents: main\n", archive.uris.join(" "));
    if let Some(key) = &archive.signed_by {
        let separator = if key.starts_with('\n') { "" } else { " " };
        stanza.push_str(&format!("Signed-By:{separator}{key}\n"));
    }
    stanza
}

/// The value of `key` in an os-release file.
pub(super) fn os_release_value(text: &str, key: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb
# a comment in the middle
URIs: http://archive.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
";

    #[test]
    fn deb822_becomes_sid_with_the_same_archive_and_key() {
        let sources = parse_deb822_style(DEB822);
        assert_eq!(sources.len(), 2);
        let archive = debian_archive(&sources, "bookworm").unwrap();
        assert_eq!(
            sid_stanza(archive),
            "Types: deb\nURIs: http://archive.example/debian\nSuites: sid\nComponents: main\n\
             Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        );
    }

    #[test]
    fn one_line_entries_with_and_without_options() {
        let text = "\
# deb http://archive.example/debian bookworm main
deb-src http://archive.example/debian bookworm main
deb [arch=amd64 signed-by=/k/debian-archive-keyring.gpg] http://archive.example/debian bookworm main contrib # why
deb http://plain.example/debian/ trixie main
";
        let sources = parse_one_line_style(text);
        assert_eq!(sources.len(), 2);
        let bookworm = sid_stanza(debian_archive(&sources, "bookworm").unwrap());
        assert!(bookworm.contains("URIs: http://archive.example/debian\n"), "{bookworm}");
        assert!(bookworm.ends_with("Signed-By: /k/debian-archive-keyring.gpg\n"), "{bookworm}");
        let trixie = sid_stanza(debian_archive(&sources, "trixie").unwrap());
        assert!(!trixie.contains("Signed-By"), "{trixie}");
    }

    #[test]
    fn other_vendors_disabled_stanzas_and_other_releases_are_passed_over() {
        let text = "\
Types: deb
URIs: https://vendor.example/apt
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/vendor.gpg

Enabled: no
Types: deb
URIs: http://archive.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://archive.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://archive.example/debian
Suites: trixie
Components: main
";
        let sources = parse_deb822_style(text);
        assert_eq!(sources.len(), 2);
        assert_eq!(debian_archive(&sources, "bookworm"), None);
        assert!(debian_archive(&sources, "trixie").is_some());
    }

    #[test]
    fn an_inline_key_keeps_its_continuation_lines() {
        let text = "\
Types: deb
URIs: http://archive.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 debian-archive
 -----END PGP PUBLIC KEY BLOCK-----
";
        let sources = parse_deb822_style(text);
        let stanza = sid_stanza(debian_archive(&sources, "bookworm").unwrap());
        assert!(stanza.contains("Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n"), "{stanza}");
        assert_eq!(parse_deb822_style(&stanza).len(), 1);
    }

    #[test]
    fn os_release_values_lose_their_quotes() {
        let text = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(os_release_value(text, "VERSION_CODENAME").as_deref(), Some("bookworm"));
        assert_eq!(os_release_value(text, "VERSION_ID").as_deref(), Some("12"));
        assert_eq!(os_release_value(text, "VERSION"), None);
    }
}
