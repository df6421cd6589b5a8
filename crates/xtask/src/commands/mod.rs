//! One module per command, each with its `Arguments` and its `run`. Commands don't call each other; what two of them
//! need lies in the library, or beside `commands`.

pub(crate) mod bench;
pub(crate) mod crash_matrix;
pub(crate) mod db;
pub(crate) mod demo;
pub(crate) mod fuzz;
pub(crate) mod model;
pub(crate) mod schemathesis;
pub(crate) mod sim;
pub(crate) mod soak;
pub(crate) mod sqlx;
pub(crate) mod test;
