//! The fake wallet passes the wallet's suite.

mod fake_far_side;

flow_testkit::wallet_conformance!(fake_far_side::FakeFactory);
