//! Schemas, and the two accounts the product runs with.

use super::{Server, ServerError};

/// The account that applies migrations.
pub const MIGRATION_ACCOUNT: &str = "pay_migrate";
/// The account the services run with.
pub const APP_ACCOUNT: &str = "pay_app";

impl Server {
    /// Creates the schema `name` and returns `root`'s URL for it.
    ///
    /// # Errors
    /// A name that is not plain, a schema that is there already, a server that does not answer.
    pub async fn create_schema(&self, name: &str) -> Result<String, ServerError> {
        check_schema_name(name)?;
        self.run_sql(&format!("CREATE DATABASE `{name}` CHARACTER SET utf8mb4")).await?;
        Ok(self.url(name))
    }

    /// Drops the schema `name` with all that is in it, if it is there.
    ///
    /// # Errors
    /// A name that is not plain, a server that does not answer.
    pub async fn drop_schema(&self, name: &str) -> Result<(), ServerError> {
        check_schema_name(name)?;
        self.run_sql(&format!("DROP DATABASE IF EXISTS `{name}`")).await
    }

    /// Lets [`MIGRATION_ACCOUNT`] apply migrations in `schema`, and returns its URL.
    ///
    /// It gets DDL rights in the schema and the global right `SUPER`: with binary logging on, MySQL 9.7 and MariaDB
    /// 10.11 both refuse `CREATE TRIGGER` without it (error 1419), whatever other right the account has, unless the
    /// server runs with `log_bin_trust_function_creators=1`. This server does not, as a default server does not.
    ///
    /// # Errors
    /// As [`Server::create_schema`].
    pub async fn grant_migrations(&self, schema: &str) -> Result<String, ServerError> {
        check_schema_name(schema)?;
        self.ensure_account(MIGRATION_ACCOUNT).await?;
        let rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, TRIGGER";
        self.run_sql(&format!(
            "GRANT {rights} ON `{schema}`.* TO '{MIGRATION_ACCOUNT}'@'%'; GRANT SUPER ON *.* TO '{MIGRATION_ACCOUNT}'@'%';"
        ))
        .await?;
        Ok(self.account_url(MIGRATION_ACCOUNT, schema))
    }

    /// Lets [`APP_ACCOUNT`] do in `schema` what `grants` says, and returns its URL. The statements run as root inside
    /// the schema after the migrations, since rights on a table need the table.
    ///
    /// # Errors
    /// As [`Server::create_schema`], and whatever the server has against the statements.
    pub async fn grant_app(&self, schema: &str, grants: &str) -> Result<String, ServerError> {
        check_schema_name(schema)?;
        self.ensure_account(APP_ACCOUNT).await?;
        self.run_sql_in(schema, grants).await?;
        Ok(self.account_url(APP_ACCOUNT, schema))
    }

    /// `SUPER` is deprecated in MySQL, not replaced for this purpose. The host part is `%`: the server listens on
    /// loopback only, and a container sees its clients under another address.
    async fn ensure_account(&self, account: &str) -> Result<(), ServerError> {
        let password = &self.account_password;
        self.run_sql(&format!(
            "CREATE USER IF NOT EXISTS '{account}'@'%' IDENTIFIED BY '{password}'; \
             ALTER USER '{account}'@'%' IDENTIFIED BY '{password}';"
        ))
        .await
    }

    fn account_url(&self, account: &str, schema: &str) -> String {
        format!("mysql://{account}:{}@127.0.0.1:{}/{schema}", self.account_password, self.port())
    }
}

/// Plain names only: they are put between backticks and into URLs as they are.
fn check_schema_name(name: &str) -> Result<(), ServerError> {
    let plain = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain { Ok(()) } else { Err(ServerError::BadSchemaName { name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::check_schema_name;

    #[test]
    fn schema_names_are_plain() {
        for good in ["a", "pay_1", &"x".repeat(64)] {
            assert!(check_schema_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a-b", "a`b", "a b", "é", &"x".repeat(65)] {
            assert!(check_schema_name(bad).is_err(), "{bad}");
        }
    }
}
