//! The channel `main` of the stack, whose daily bill is the simulator's.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate, TimeDelta, Timelike as _, Utc};

use super::sim::SimClient;

/// A channel whose business day does not end soon, whenever it is asked for: it lies where it is noon.
#[derive(Debug, Clone)]
pub struct BillChannel {
    zone: String,
    day: NaiveDate,
    folder: PathBuf,
}

impl BillChannel {
    /// Its name in the configuration and in every command.
    pub const NAME: &str = "main";

    /// The channel whose clocks show noon, or up to an hour more, at this moment; its bills are kept below `folder`.
    pub fn at_noon(now: DateTime<Utc>, folder: &Path) -> BillChannel {
        let east_h = 12 - i64::from(now.hour());
        // These names count westwards.
        let zone = match east_h {
            0 => "Etc/GMT".to_owned(),
            1.. => format!("Etc/GMT-{east_h}"),
            _ => format!("Etc/GMT+{}", -east_h),
        };
        let day = (now + TimeDelta::hours(east_h)).date_naive();
        BillChannel { zone, day, folder: folder.to_owned() }
    }

    /// Its business day of that moment.
    pub fn day(&self) -> NaiveDate {
        self.day
    }

    /// The zone of its days.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Its section of the configuration file.
    pub fn table(&self) -> String {
        let (zone, folder, name) = (&self.zone, self.folder.display(), BillChannel::NAME);
        format!(
            r#"[recon]
evidence_folder = "{folder}/kept"

[recon.channels.{name}]
wallet = "main"
format = "ledger-csv"
zone = "{zone}"
exponents = {{ CNY = 2, POINTS = 0 }}
file = "{folder}/{{date}}.csv"

"#
        )
    }

    /// Fetches the day's bill from the simulator and puts it where `pay-recon` looks for it; how many bytes it has.
    ///
    /// # Errors
    /// The simulator has no such bill, or the file cannot be written.
    pub async fn fetch(&self, sim: &SimClient) -> anyhow::Result<usize> {
        let bill = sim.bill(self.day, &self.zone).await?;
        let path = self.folder.join(format!("{}.csv", self.day));
        std::fs::write(&path, &bill).with_context(|| format!("can not write {}", path.display()))?;
        Ok(bill.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_noon_at_every_hour_and_the_day_is_the_one_there() {
        for (now, zone, day) in [
            ("2026-03-01T00:00:00Z", "Etc/GMT-12", "2026-03-01"),
            ("2026-03-01T11:59:59Z", "Etc/GMT-1", "2026-03-01"),
            ("2026-03-01T12:30:00Z", "Etc/GMT", "2026-03-01"),
            ("2026-03-01T15:59:00Z", "Etc/GMT+3", "2026-03-01"),
            ("2026-03-01T23:59:59Z", "Etc/GMT+11", "2026-03-01"),
        ] {
            let channel = BillChannel::at_noon(now.parse().unwrap(), Path::new("bills"));
            assert_eq!((channel.zone(), channel.day().to_string().as_str()), (zone, day), "{now}");
            assert!(channel.table().contains(&format!("zone = \"{zone}\"")));
        }
    }
}
