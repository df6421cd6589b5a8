//! Leases on partitions, lost at once when the holder is dropped or its connection is broken.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use flow_core::ports::PartitionLease;

/// Who holds which partition. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    holders: HashMap<(u32, u32), u64>,
    last_token: u64,
}

impl Leases {
    pub(super) fn try_take(&self, partition: u32, partitions: u32) -> Option<Box<dyn PartitionLease>> {
        let mut held = self.lock();
        let part = (partition, partitions);
        if held.holders.contains_key(&part) {
            return None;
        }
        held.last_token += 1;
        let token = held.last_token;
        held.holders.insert(part, token);
        drop(held);
        Some(Box::new(MemLease { leases: self.clone(), part, token }))
    }

    /// Breaks every holder's connection.
    pub(super) fn break_all(&self) {
        self.lock().holders.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

struct MemLease {
    leases: Leases,
    part: (u32, u32),
    token: u64,
}

#[async_trait]
impl PartitionLease for MemLease {
    async fn still_held(&mut self) -> bool {
        self.leases.lock().holders.get(&self.part) == Some(&self.token)
    }

    async fn release(self: Box<Self>) {
        drop(self);
    }
}

impl Drop for MemLease {
    fn drop(&mut self) {
        let mut held = self.leases.lock();
        if held.holders.get(&self.part) == Some(&self.token) {
            held.holders.remove(&self.part);
        }
    }
}
