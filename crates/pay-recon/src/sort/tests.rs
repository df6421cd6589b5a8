//! The sort against sorting in memory, whatever the buffer and the lanes; its bounds; files that are damaged.

use proptest::prelude::*;

use super::*;

fn sorter(buffer_bytes: usize, lanes: usize) -> Sorter {
    let mut sorter = Sorter::new(SortOptions { folder: std::env::temp_dir(), buffer_bytes: 0, lanes });
    // Below what is allowed: many files of few records.
    sorter.options.buffer_bytes = buffer_bytes;
    sorter
}

type Owned = (u64, Vec<u8>, Vec<u8>);

fn all(mut merge: Merge) -> Vec<Owned> {
    let mut out = Vec::new();
    while let Some(Sorted { group, key, payload }) = merge.head() {
        out.push((group, key.to_vec(), payload.to_vec()));
        merge.advance().unwrap();
    }
    merge.advance().unwrap();
    assert_eq!(merge.head(), None, "the end stays the end");
    out
}

fn some_records() -> impl Strategy<Value = Vec<Owned>> {
    let bytes = |most: usize| prop::collection::vec(any::<u8>(), 0..most);
    // Few groups, so that some have several records.
    prop::collection::vec((0..40_u64, bytes(24), bytes(40)), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_sorts_whatever_the_buffer_and_the_lanes(
        (mut records, others) in (some_records(), some_records()),
        buffer_bytes in 1_usize..4_000,
        lanes in 1_usize..4,
    ) {
        let mut sorter = sorter(buffer_bytes, lanes);
        let mut other = self::sorter(buffer_bytes, lanes);
        for (group, key, payload) in &records {
            sorter.push(*group, key, payload).unwrap();
        }
        for (group, key, payload) in &others {
            other.push(*group, key, payload).unwrap();
        }
        sorter.join(other).unwrap();
        records.extend(others);
        records.sort();
        prop_assert_eq!(sorter.records(), u64::try_from(records.len()).unwrap());
        let merges = sorter.finish().unwrap();
        prop_assert_eq!(merges.len(), lanes);
        for (lane, merge) in merges.into_iter().enumerate() {
            let mine = |record: &&Owned| record.0 % u64::try_from(lanes).unwrap() == u64::try_from(lane).unwrap();
            let expected: Vec<Owned> = records.iter().filter(mine).cloned().collect();
            prop_assert_eq!(all(merge), expected);
        }
    }
}

fn only(sorter: Sorter) -> Merge {
    sorter.finish().unwrap().pop().unwrap()
}

#[test]
fn more_files_than_may_be_open_become_one() {
    let mut sorter = sorter(1, 1);
    for number in (0..1_000_u64).rev() {
        sorter.push(number, b"k", b"x").unwrap();
    }
    assert!(sorter.lanes[0].runs.len() <= MAX_RUNS, "{}", sorter.lanes[0].runs.len());
    let groups: Vec<u64> = all(only(sorter)).into_iter().map(|(group, _, _)| group).collect();
    assert_eq!(groups, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn the_buffer_is_all_it_takes() {
    let buffer_bytes = 1_000_000;
    let mut sorter = Sorter::new(SortOptions { folder: std::env::temp_dir(), buffer_bytes, lanes: 2 });
    for number in 0..50_000_u64 {
        sorter.push(number, b"key", &[7; 60]).unwrap();
        let held = |lane: &Lane| lane.arena.capacity() + lane.places.capacity() * size_of::<Place>();
        let held: usize = sorter.lanes.iter().map(held).sum();
        assert!(held <= buffer_bytes + buffer_bytes / 3, "{held} bytes are held");
    }
    assert!(sorter.spilled_bytes() > 2_000_000);
    let back: usize = sorter.finish().unwrap().into_iter().map(|merge| all(merge).len()).sum();
    assert_eq!(back, 50_000);
}

#[test]
fn a_record_longer_than_any_buffer_comes_back() {
    let long = vec![9; 3 * FILE_BUFFER_BYTES];
    let mut sorter = sorter(1, 1);
    sorter.push(2, b"b", b"short").unwrap();
    sorter.push(1, b"a", &long).unwrap();
    assert_eq!(all(only(sorter)), [(1, b"a".to_vec(), long), (2, b"b".to_vec(), b"short".to_vec())]);
}

#[test]
fn a_file_that_ends_in_a_record_is_an_error() {
    for length in [10, 20] {
        let mut sorter = sorter(1, 1);
        sorter.push(1, b"key", b"payload").unwrap();
        sorter.push(2, b"kez", b"payload").unwrap();
        sorter.lanes[0].runs[0].set_len(length).unwrap();
        assert!(sorter.finish().is_err(), "{length}");
    }
}

#[test]
fn sorts_with_other_lanes_do_not_join() {
    assert!(sorter(1, 2).join(sorter(1, 3)).is_err());
}
