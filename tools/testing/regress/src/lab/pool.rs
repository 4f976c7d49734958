// SPDX-License-Identifier: GPL-2.0
//! Guests side by side, as many as CPUs and memory allow.

use super::{affinity, qemu, Job, Ran};
use crate::case::Lab;
use crate::ui;
use anyhow::{Context, Result};
use std::sync::{Condvar, Mutex};

/// CPUs (and memory) that guests share.
struct Slots {
    free: Mutex<Vec<usize>>,
    freed: Condvar,
    all: usize,
}

impl Slots {
    fn new() -> Self {
        let by_memory = (memory_mib("MemAvailable") / qemu::MEMORY) as usize;
        let mut cpus = affinity::allowed();
        cpus.truncate(by_memory.max(1));
        Slots::of(cpus)
    }

    fn of(cpus: Vec<usize>) -> Self {
        Slots {
            all: cpus.len(),
            free: Mutex::new(cpus),
            freed: Condvar::new(),
        }
    }

    /// Waits for `count` CPUs, at most all that there are, and takes them.
    fn take(&self, count: usize) -> Vec<usize> {
        let count = count.min(self.all);
        let free = self.free.lock().expect("no thread panics with the lock");
        let mut free = self
            .freed
            .wait_while(free, |free| free.len() < count)
            .expect("as above");
        let left = free.len() - count;
        free.split_off(left)
    }

    fn give(&self, cpus: Vec<usize>) {
        self.free.lock().expect("as above").extend(cpus);
        self.freed.notify_all();
    }
}

/// A value of /proc/meminfo in MiB; without one, as much as is needed.
pub fn memory_mib(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib >> 10)
}

/// What became of each job, `None` if it is still to be run.
type Known = Vec<Option<Ran>>;

/// Results of earlier runs that stand, unless `fresh` ones are wanted.
fn known(jobs: &[(String, &Job)], fresh: bool) -> Result<Known> {
    if fresh {
        return Ok(jobs.iter().map(|_| None).collect());
    }
    let known: Known = jobs
        .iter()
        .map(|(_, job)| job.reuse())
        .collect::<Result<_>>()?;
    let count = known.iter().flatten().count();
    if count > 0 {
        ui::reused(&format!(
            "{count} runs in virtual time: neither kernel nor selftest nor tools have changed; `regress run --fresh` runs them"
        ));
    }
    Ok(known)
}

/// Runs all guests, as many at once as CPUs and memory allow; those in virtual
/// time only if they could give something new or `fresh` results are wanted.
pub fn run_all(jobs: &[(String, &Job)], fresh: bool) -> Result<Vec<Ran>> {
    let known = known(jobs, fresh)?;
    let open = known.iter().filter(|ran| ran.is_none()).count();
    if open == 0 {
        return Ok(known.into_iter().flatten().collect());
    }
    let slots = Slots::new();
    let step = ui::Step::start(format!("running {open} guests"));
    let run_one = |label: &str, job: &Job| {
        let taken = slots.take(match job.lab {
            Lab::Qemu => qemu::cpus(job.accel),
            Lab::Uml | Lab::UmlRealtime => 1,
        });
        let ran = job.run_on(taken[0]).with_context(|| label.to_string());
        slots.give(taken);
        if let Ok(ran) = &ran {
            job.remember(ran)?;
            step.line(&format!(
                "{:6.1} s  {label}: {}",
                ran.wall.as_secs_f64(),
                ran.ending.summary()
            ));
        }
        ran
    };
    let ran: Result<Vec<Ran>> = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .iter()
            .zip(known)
            .map(|((label, job), known)| {
                scope.spawn(|| known.map_or_else(|| run_one(label, job), Ok))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a guest's thread does not panic"))
            .collect()
    });
    step.done("");
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_and_never_more_than_there_are() {
        let slots = Slots::of(vec![0, 1]);
        let both = slots.take(usize::MAX);
        assert_eq!(both, [0, 1]);
        slots.give(both);
        let (one, other) = (slots.take(1), slots.take(1));
        assert_ne!(one, other);
        slots.give(one.clone());
        assert_eq!(*slots.free.lock().unwrap(), one);
    }
}
