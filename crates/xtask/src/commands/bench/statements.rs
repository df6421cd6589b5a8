//! The product's own SQL, read from the committed query metadata, so that the reference issues exactly what the product
//! issues. A statement that changed its parameters is noticed and named, not measured wrongly.

use anyhow::Context as _;
use serde::Deserialize;

/// The statements of one payment and of one scanner page.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    /// What a creation must know: 5 parameters.
    pub(super) look_up: String,
    /// The creation: 18 parameters.
    pub(super) create: String,
    /// The compare-and-swap: 36 parameters.
    pub(super) cas: String,
    /// A page of due ids: 5 parameters.
    pub(super) list_due: String,
}

#[derive(Deserialize)]
struct Metadata {
    query: String,
    describe: Describe,
}

#[derive(Deserialize)]
struct Describe {
    parameters: Parameters,
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(rename = "Right")]
    count: usize,
}

impl Statements {
    /// Reads `.sqlx`.
    ///
    /// # Errors
    /// A statement is missing, doubled, or has another number of parameters than the benchmark binds.
    pub(super) fn read() -> anyhow::Result<Statements> {
        let dir = xtask::workspace_root().join(".sqlx");
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&dir).with_context(|| format!("can not read {}", dir.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path)?;
                let metadata: Metadata = serde_json::from_str(&text)
                    .with_context(|| format!("{} is not query metadata", path.display()))?;
                all.push(metadata);
            }
        }
        let find = |what: &str, marks: &[&str], parameters: usize| {
            let mut found =
                all.iter().filter(|metadata| marks.iter().all(|mark| metadata.query.contains(mark)));
            let metadata = found.next().with_context(|| format!("no statement for {what} in .sqlx"))?;
            anyhow::ensure!(found.next().is_none(), "more than one statement for {what} in .sqlx");
            let count = metadata.describe.parameters.count;
            anyhow::ensure!(
                count == parameters,
                "the statement for {what} has {count} parameters, the benchmark binds {parameters}: adapt bench/load.rs"
            );
            Ok(metadata.query.clone())
        };
        Ok(Statements {
            look_up: find("look_up", &["UNION ALL", "pay_request_key"], 5)?,
            create: find("create", &["INSERT INTO internal_pay_flow", "VALUES"], 18)?,
            cas: find("cas_status", &["UPDATE internal_pay_flow SET", "WHERE id = ? AND status = ?"], 36)?,
            list_due: find(
                "list_due_after",
                &["FROM internal_pay_flow FORCE INDEX (idx_open_id_due)", "id > ?"],
                5,
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The benchmark is seldom run: a statement that was added or changed must be noticed before it is wanted.
    #[test]
    fn every_statement_is_found_among_the_products() {
        let statements = Statements::read().unwrap();
        assert!(statements.list_due.contains("MOD(id, ?) = ?"), "{}", statements.list_due);
        assert!(statements.cas.contains("version = ?"), "{}", statements.cas);
    }
}
