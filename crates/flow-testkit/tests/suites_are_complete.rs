//! A case that is written but not listed would silently never run.

const STORE_CASES: [&str; 5] = [
    include_str!("../src/conformance/store/cas.rs"),
    include_str!("../src/conformance/store/create.rs"),
    include_str!("../src/conformance/store/find.rs"),
    include_str!("../src/conformance/store/race.rs"),
    include_str!("../src/conformance/store/scan.rs"),
];

const RECON_CASES: [&str; 5] = [
    include_str!("../src/conformance/recon/batches.rs"),
    include_str!("../src/conformance/recon/carries.rs"),
    include_str!("../src/conformance/recon/flows.rs"),
    include_str!("../src/conformance/recon/lists.rs"),
    include_str!("../src/conformance/recon/tickets.rs"),
];

#[test]
fn every_case_is_listed() {
    listed(&STORE_CASES, include_str!("../src/conformance/store/mod.rs"), 39);
    let wallet = include_str!("../src/conformance/wallet.rs");
    listed(&[wallet], wallet, 17);
    let business = include_str!("../src/conformance/business.rs");
    listed(&[business], business, 9);
    let inbox = include_str!("../src/conformance/inbox.rs");
    listed(&[inbox], inbox, 13);
    let outbox = include_str!("../src/conformance/outbox.rs");
    listed(&[outbox], outbox, 14);
    listed(&RECON_CASES, include_str!("../src/conformance/recon/mod.rs"), 21);
    let wake = include_str!("../src/conformance/wake.rs");
    listed(&[wake], wake, 5);
}

fn listed(sources: &[&str], list: &str, expected: usize) {
    let mut cases = 0;
    for line in sources.iter().flat_map(|source| source.lines()) {
        let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
        let name = rest.split('(').next().expect("a split has a first part");
        assert!(
            list.lines().any(|listed| listed.trim() == format!("{name},")),
            "case {name} is not in its suite's list"
        );
        cases += 1;
    }
    assert_eq!(cases, expected, "cases found; if one was added, raise the number");
}
