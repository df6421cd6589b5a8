//! The fake business system passes the business system's suite.

mod fake_far_side;

flow_testkit::business_conformance!(fake_far_side::FakeFactory);
