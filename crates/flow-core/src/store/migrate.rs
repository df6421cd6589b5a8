//! The schema this program was built for: applying it, and telling whether a database has it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::migrate::{Migrate as _, MigrateDatabase as _, MigrateError, Migrator};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use super::connect::{Connector, Purpose};
use super::options::{OptionsError, StoreOptions};
use crate::crash::{Spot, around};

/// The migrations of the workspace's `migrations/` folder, as of the build.
pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

const TABLE: &str = "_sqlx_migrations";
/// Longest wait for another process that migrates the same schema.
const LOCK_WAIT_S: u32 = 60;

/// Something that happened while migrating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationStep {
    /// The schema did not exist and was created.
    SchemaCreated,
    /// A migration is being applied.
    Applying {
        /// Its number.
        version: i64,
        /// What it is called.
        description: String,
    },
    /// A migration was applied.
    Applied {
        /// Its number.
        version: i64,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// Nothing was left to do.
    UpToDate,
}

/// Why a schema could not be migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The URL is none.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The account may not create triggers.
    #[error(
        "this account may not create triggers; nothing was applied; with binary logging on, a server wants TRIGGER on the \
         schema and either SUPER or log_bin_trust_function_creators = 1 (see docs/grants.sql)"
    )]
    NoTriggerRight,
    /// Another process held the migration lock for too long.
    #[error(
        "another process has been migrating this schema for {LOCK_WAIT_S} s; nothing was applied; try again"
    )]
    Locked,
    /// What the database has is not a beginning of what this program has.
    #[error("the schema can't be migrated: {0}; nothing was applied")]
    Mismatch(SchemaMismatch),
    /// A migration failed half way.
    #[error(
        "migration {version} failed; what it had done so far stands, since the server can't undo DDL; repair the schema by hand, \
         delete the row of version {version} from _sqlx_migrations, and migrate again"
    )]
    Failed {
        /// Its number.
        version: i64,
        /// What the server said.
        #[source]
        source: Box<MigrateError>,
    },
    /// The server could not be reached, or failed before anything was applied.
    #[error("the database failed before anything was applied")]
    Database(#[source] sqlx::Error),
}

/// How a database's schema differs from the one this program was built for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaMismatch {
    /// No migration was ever applied.
    #[error("the database has no schema of this service yet; run the migrations")]
    Empty,
    /// Some are missing.
    #[error("the database lacks migrations {missing:?}; run the migrations of this version")]
    Behind {
        /// Their numbers.
        missing: Vec<i64>,
    },
    /// The database has more.
    #[error("the database has migrations {unknown:?} that this program does not know; run the newer program")]
    Ahead {
        /// Their numbers.
        unknown: Vec<i64>,
    },
    /// One was applied with another text.
    #[error("migration {version} was applied with another text than this program has")]
    Altered {
        /// Its number.
        version: i64,
    },
    /// One failed half way.
    #[error("migration {version} failed half way; the schema must be repaired by hand")]
    HalfApplied {
        /// Its number.
        version: i64,
    },
}

/// Applies what is missing, telling each step. Creates the schema itself if it does not exist and the account may.
///
/// # Errors
/// [`MigrationError`], which says what state things are in.
pub async fn migrate(
    url: &str,
    progress: &mut (dyn FnMut(MigrationStep) + Send),
) -> Result<(), MigrationError> {
    let mut options = StoreOptions::new(url);
    options.acquire_timeout_ms = 10_000;
    let connector = Connector::new(&options)?;
    let mut connection = match connector.open(Purpose::Hold).await {
        Err(error) if number_of(&error) == Some(UNKNOWN_DATABASE) => {
            sqlx::MySql::create_database(url).await.map_err(MigrationError::Database)?;
            progress(MigrationStep::SchemaCreated);
            connector.open(Purpose::Hold).await.map_err(MigrationError::Database)?
        }
        opened => opened.map_err(MigrationError::Database)?,
    };
    let lock = "CONCAT('pay-migrate.', LEFT(SHA2(DATABASE(), 256), 16))";
    let got: Option<i64> =
        sqlx::query_scalar(AssertSqlSafe(format!("SELECT CAST(GET_LOCK({lock}, {LOCK_WAIT_S}) AS SIGNED)")))
            .fetch_one(&mut connection)
            .await
            .map_err(MigrationError::Database)?;
    if got != Some(1) {
        return Err(MigrationError::Locked);
    }
    // The lock goes with the connection, whatever happens.
    apply_missing(&mut connection, progress).await?;
    connection.close().await.map_err(MigrationError::Database)
}

async fn apply_missing(
    connection: &mut MySqlConnection,
    progress: &mut (dyn FnMut(MigrationStep) + Send),
) -> Result<(), MigrationError> {
    connection
        .ensure_migrations_table(TABLE)
        .await
        .map_err(|error| MigrationError::Database(sqlx::Error::from(error)))?;
    let missing = match compare(&applied(connection).await.map_err(MigrationError::Database)?) {
        Ok(()) => Vec::new(),
        Err(SchemaMismatch::Empty) => MIGRATIONS.iter().map(|migration| migration.version).collect(),
        Err(SchemaMismatch::Behind { missing }) => missing,
        Err(
            mismatch @ (SchemaMismatch::Ahead { .. }
            | SchemaMismatch::Altered { .. }
            | SchemaMismatch::HalfApplied { .. }),
        ) => return Err(MigrationError::Mismatch(mismatch)),
    };
    if missing.is_empty() {
        progress(MigrationStep::UpToDate);
        return Ok(());
    }
    probe_trigger_right(connection).await?;
    for migration in MIGRATIONS.iter().filter(|migration| missing.contains(&migration.version)) {
        let version = migration.version;
        progress(MigrationStep::Applying {
            version,
            description: migration.description.clone().into_owned(),
        });
        let took = connection
            .apply(TABLE, migration)
            .await
            .map_err(|error| MigrationError::Failed { version, source: Box::new(error) })?;
        progress(MigrationStep::Applied { version, took_ms: millis(took) });
    }
    Ok(())
}

/// Creates and drops a table with a trigger: without the right, the third migration would fail half way.
async fn probe_trigger_right(connection: &mut MySqlConnection) -> Result<(), MigrationError> {
    connection
        .execute("CREATE TABLE IF NOT EXISTS flow_migration_probe (id INT PRIMARY KEY)")
        .await
        .map_err(MigrationError::Database)?;
    let probed = connection
        .execute(
            "CREATE TRIGGER flow_migration_probe BEFORE INSERT ON flow_migration_probe FOR EACH ROW SET NEW.id = NEW.id",
        )
        .await;
    connection.execute("DROP TABLE flow_migration_probe").await.map_err(MigrationError::Database)?;
    match probed {
        Ok(_) => Ok(()),
        // Binary logging and no SUPER; no TRIGGER on the table; no such privilege at all.
        Err(error) if matches!(number_of(&error), Some(1419 | 1142 | 1227)) => {
            Err(MigrationError::NoTriggerRight)
        }
        Err(error) => Err(MigrationError::Database(error)),
    }
}

/// Whether the database has exactly the migrations of this program: no fewer, no more, none with another text.
///
/// # Errors
/// The outer one if the database could not be asked, the inner one if it has another schema.
pub(super) async fn schema_is_current(
    connection: &mut MySqlConnection,
) -> Result<Result<(), SchemaMismatch>, sqlx::Error> {
    match applied(connection).await {
        Ok(applied) => Ok(compare(&applied)),
        Err(error) if number_of(&error) == Some(UNKNOWN_TABLE) => Ok(Err(SchemaMismatch::Empty)),
        Err(error) => Err(error),
    }
}

struct Applied {
    version: i64,
    checksum: Vec<u8>,
    success: bool,
}

async fn applied(connection: &mut MySqlConnection) -> Result<Vec<Applied>, sqlx::Error> {
    around!(
        Spot::StartSchema,
        sqlx::query_as!(
            Applied,
            "SELECT version, checksum, success AS `success: bool` FROM _sqlx_migrations ORDER BY version"
        )
        .fetch_all(connection)
        .await
    )
}

fn compare(applied: &[Applied]) -> Result<(), SchemaMismatch> {
    if applied.is_empty() {
        return Err(SchemaMismatch::Empty);
    }
    if let Some(half) = applied.iter().find(|migration| !migration.success) {
        return Err(SchemaMismatch::HalfApplied { version: half.version });
    }
    let known: BTreeMap<i64, &Cow<'static, [u8]>> =
        MIGRATIONS.iter().map(|migration| (migration.version, &migration.checksum)).collect();
    let unknown: Vec<i64> = applied
        .iter()
        .map(|migration| migration.version)
        .filter(|version| !known.contains_key(version))
        .collect();
    if !unknown.is_empty() {
        return Err(SchemaMismatch::Ahead { unknown });
    }
    for migration in applied {
        if known.get(&migration.version).is_some_and(|checksum| ***checksum != *migration.checksum) {
            return Err(SchemaMismatch::Altered { version: migration.version });
        }
    }
    let missing: Vec<i64> = known
        .into_keys()
        .filter(|version| !applied.iter().any(|migration| migration.version == *version))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(SchemaMismatch::Behind { missing }) }
}

const UNKNOWN_DATABASE: u16 = 1049;
const UNKNOWN_TABLE: u16 = 1146;

fn number_of(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Applied> {
        MIGRATIONS
            .iter()
            .map(|migration| Applied {
                version: migration.version,
                checksum: migration.checksum.to_vec(),
                success: true,
            })
            .collect()
    }

    #[test]
    fn every_difference_has_its_own_name() {
        assert_eq!(compare(&all()), Ok(()));
        assert_eq!(compare(&[]), Err(SchemaMismatch::Empty));
        let mut behind = all();
        let last = behind.pop().unwrap().version;
        assert_eq!(compare(&behind), Err(SchemaMismatch::Behind { missing: vec![last] }));
        let mut ahead = all();
        ahead.push(Applied { version: 9999, checksum: vec![], success: true });
        assert_eq!(compare(&ahead), Err(SchemaMismatch::Ahead { unknown: vec![9999] }));
        let mut altered = all();
        altered[0].checksum[0] ^= 1;
        assert_eq!(compare(&altered), Err(SchemaMismatch::Altered { version: altered[0].version }));
        let mut half = all();
        half[1].success = false;
        assert_eq!(compare(&half), Err(SchemaMismatch::HalfApplied { version: half[1].version }));
    }
}
