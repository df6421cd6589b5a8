//! Empty schemas on a private server. What belongs into one, accounts included, is the caller's.

use super::{Server, ServerError};

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
