//! The product at work over one schema.

use std::time::Duration;

use anyhow::Context as _;
use xtask::stack::{
    ApiClient, Audit, Keys, Patience, Profile, SimClient, Stack, StackOptions, Tuning, wait_until,
};

use crate::database::Database;

/// Running processes over a schema.
pub struct Site {
    /// The schema.
    pub database: Database,
    /// The processes.
    pub stack: Stack,
}

impl Site {
    /// Starts the simulator, so many APIs and so many scanners.
    ///
    /// # Errors
    /// A process that does not get ready, with the end of its log.
    pub async fn open(
        database: Database,
        tuning: Tuning,
        apis: usize,
        scanners: usize,
    ) -> anyhow::Result<Site> {
        let mut site = Site::open_empty(database, tuning, Profile::Debug).await?;
        for _ in 0..apis {
            site.stack.start_api().await?;
        }
        for _ in 0..scanners {
            site.stack.start_scanner().await?;
        }
        Ok(site)
    }

    /// Starts the simulator alone; APIs and scanners will be of this build.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn open_empty(database: Database, tuning: Tuning, profile: Profile) -> anyhow::Result<Site> {
        let dir =
            xtask::target_dir().join("e2e").join(format!("{}-{}", database.flavor.slug(), database.schema));
        // Logs of an earlier run under the same process id would be taken for this one's.
        let _ = std::fs::remove_dir_all(&dir);
        let options = StackOptions {
            app_url: database.app_url.clone(),
            migrate_url: database.migrate_url.clone(),
            dir,
            profile,
            sim_in_memory: false,
            tuning,
        };
        Ok(Site { database, stack: Stack::start(options).await? })
    }

    /// The client application `shop`, at the first API process.
    pub fn client(&self) -> ApiClient {
        self.stack.api(0)
    }

    /// People on call, at the first API process.
    pub fn on_call(&self) -> ApiClient {
        self.client().with_key(Keys::ON_CALL)
    }

    /// An operator, at the first API process.
    pub fn operator(&self) -> ApiClient {
        self.client().with_key(Keys::OPERATOR)
    }

    /// Process ids of the services, to see that none has ended.
    pub fn service_pids(&mut self) -> Vec<Option<u32>> {
        self.stack.service_pids()
    }

    /// The simulator.
    pub fn sim(&self) -> SimClient {
        self.stack.sim()
    }

    /// Reads rows and books once.
    ///
    /// # Errors
    /// Either cannot be read.
    pub async fn audit(&self) -> anyhow::Result<Audit> {
        let mut root = self.database.connect().await?;
        Audit::read(&mut root, &self.sim()).await
    }

    /// Waits until every flow has ended or is held, and checks the invariants.
    ///
    /// # Errors
    /// Flows that are still open when the time is over, or an invariant that does not hold.
    pub async fn settle(&self, within: Duration) -> anyhow::Result<Audit> {
        let patience = Patience::of(within);
        let all_ended = || async { Ok((self.database.open_flows().await? == 0).then_some(())) };
        if let Err(error) = wait_until("every flow to end", within, all_ended).await {
            let audit = self.audit().await?;
            let open: Vec<_> = audit.open().into_iter().take(10).collect();
            return Err(error.context(format!(
                "{} flows are open, e.g. {open:#?}\nlogs: {}",
                audit.open().len(),
                self.stack.dir().display()
            )));
        }
        let audit = self.audit().await?;
        let violations = audit.violations();
        let listed: Vec<String> = violations.iter().take(20).map(ToString::to_string).collect();
        anyhow::ensure!(
            violations.is_empty(),
            "{} invariants do not hold:\n{}\nlogs: {}",
            violations.len(),
            listed.join("\n"),
            self.stack.dir().display()
        );
        eprintln!(
            "{}: {} flows, settled in {:.1?}",
            self.database.schema,
            audit.flows.len(),
            patience.elapsed()
        );
        Ok(audit)
    }

    /// Stops everything gracefully, looks for panics and errors in the logs, and removes the schema.
    ///
    /// # Errors
    /// A process that ended badly, or had something to say that must not happen.
    pub async fn close(self) -> anyhow::Result<()> {
        self.close_expecting(&[]).await
    }

    /// The same, where errors with one of these texts in them are what the suite has brought about.
    ///
    /// # Errors
    /// As [`Site::close`].
    pub async fn close_expecting(self, expected: &[&str]) -> anyhow::Result<()> {
        let dir = self.stack.dir().to_path_buf();
        self.stack.stop().await?;
        let complaints = complaints(&dir, expected)?;
        anyhow::ensure!(
            complaints.is_empty(),
            "the logs in {} have errors:\n{}",
            dir.display(),
            complaints.join("\n")
        );
        self.database.remove().await
    }
}

/// Lines of the logs that tell of a defect.
fn complaints(dir: &std::path::Path, expected: &[&str]) -> anyhow::Result<Vec<String>> {
    const MOST_LINES: usize = 20;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("can not list {}", dir.display()))? {
        let path = entry?.path();
        // Who was started in order to refuse has said so, loudly.
        let doomed = path.to_string_lossy().contains("-doomed-");
        if doomed || path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let bad = |line: &&str| {
            let error =
                line.contains("\"level\":\"ERROR\"") && !expected.iter().any(|text| line.contains(text));
            error || line.contains("panicked at")
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(text.lines().filter(bad).map(|line| format!("{name}: {line}")));
    }
    found.truncate(MOST_LINES);
    Ok(found)
}
