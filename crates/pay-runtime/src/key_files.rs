//! Whether the keys of the configured channels can be used: what reading the configuration alone cannot tell.

use std::collections::BTreeMap;

use flow_adapters::callback::Channel;
use flow_config::{ChannelConfig, Problems};
use flow_core::ids::ChannelName;

use crate::process::explain;

/// Reads every channel's key file; what is wrong, by the key of the configuration that names the file.
pub(crate) fn check(channels: &BTreeMap<ChannelName, ChannelConfig>) -> Problems {
    let mut problems = Problems::default();
    for (name, channel) in channels {
        if let Err(error) = Channel::new(channel) {
            problems.note(format!("channels.{name}.public_key_file"), explain(&error));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use flow_config::{RsaLayout, SchemeConfig};

    use super::*;

    fn repository(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../flow-adapters").join(path)
    }

    fn checked(key_files: &[(&str, &str)]) -> Vec<String> {
        let channel = |(name, path): &(&str, &str)| {
            let layout = RsaLayout::SortedForm;
            let scheme = SchemeConfig::RsaSha256 { public_key_file: repository(path), layout };
            (ChannelName::new(*name).unwrap(), ChannelConfig { scheme, tolerance_s: 300 })
        };
        check(&key_files.iter().map(channel).collect()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_public_key_is_usable() {
        assert_eq!(checked(&[("main", "tests/keys/channel.pub.pem")]), Vec::<String>::new());
    }

    #[test]
    fn every_file_that_is_missing_or_no_public_key_is_named_by_its_field() {
        let problems = checked(&[
            ("gone", "tests/keys/nowhere.pem"),
            ("good", "tests/keys/other.pub.pem"),
            ("private", "tests/keys/channel.pem"),
            ("text", "Cargo.toml"),
        ]);
        let [gone, private, text] = problems.as_slice() else { panic!("{problems:#?}") };
        assert!(gone.starts_with("channels.gone.public_key_file: ") && gone.contains("cannot be read: "));
        for (problem, field) in
            [(private, "channels.private.public_key_file: "), (text, "channels.text.public_key_file: ")]
        {
            assert!(problem.starts_with(field) && problem.contains("holds no RSA public key"), "{problem}");
        }
    }
}
