//! What the binary can be told to do.

pub(crate) mod hash_key;
pub(crate) mod migrate;
pub(crate) mod serve;
