// SPDX-License-Identifier: GPL-2.0
//! One CPU of the host for each guest of UML.
//!
//! UML's kernel and its processes take turns, several times for each system
//! call. On one CPU that is a switch; on two, each turn wakes a CPU that has
//! gone idle, which takes three times as long.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The CPUs that this process may run on; at least one.
pub fn allowed() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data, and the size given is its own.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) == -1 {
            return vec![0];
        }
        set
    };
    // SAFETY: the CPUs are within the set.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
}

/// The CPU that runs this.
pub fn current() -> usize {
    // SAFETY: sched_getcpu(3) has no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Lets the program run on this CPU alone; if that can't be, wherever it may.
pub fn pin(command: &mut Command, cpu: usize) {
    // SAFETY: cpu_set_t is plain data, CPU_SET ignores a CPU that it can't hold,
    // and sched_setaffinity(2) is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_on_its_cpu_alone() {
        let cpu = *allowed().last().unwrap();
        let mut nproc = Command::new("sh");
        nproc.args(["-c", "nproc; grep Cpus_allowed_list /proc/self/status"]);
        pin(&mut nproc, cpu);
        let text = crate::process::output(&mut nproc).unwrap();
        assert_eq!(text.trim(), format!("1\nCpus_allowed_list:\t{cpu}"));
        assert!(allowed().contains(&current()));
    }
}
