//! One suite per port.
