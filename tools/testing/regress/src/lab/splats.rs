// SPDX-License-Identifier: GPL-2.0
//! What a broken kernel says on its console, and how a tool that is not there
//! shows, as data.

/// A text on the console that means that something is wrong.
pub struct Splat {
    pub text: &'static str,
    /// Must start the line (behind a time stamp).
    pub at_start: bool,
    pub means: &'static str,
}

const fn starts(text: &'static str, means: &'static str) -> Splat {
    Splat {
        text,
        at_start: true,
        means,
    }
}

const fn contains(text: &'static str, means: &'static str) -> Splat {
    Splat {
        text,
        at_start: false,
        means,
    }
}

/// The kernel ends with this.
pub const PANIC: &str = "Kernel panic - not syncing";

/// In the order of how much they tell.
pub const SPLATS: &[Splat] = &[
    contains(
        "BUG: KASAN:",
        "KASAN: an access to memory that is not the code's own",
    ),
    contains(
        "BUG: KFENCE:",
        "KFENCE: an access to memory that is not the code's own",
    ),
    contains(
        "BUG: kernel NULL pointer dereference",
        "oops: a NULL pointer was followed",
    ),
    contains("BUG: unable to handle", "oops: a bad address was followed"),
    contains(
        "general protection fault",
        "oops: a non-canonical address was followed",
    ),
    contains(
        "Segfault with no mm",
        "oops (UML): a bad address was followed",
    ),
    contains(
        "Kernel tried to access user memory",
        "oops (UML): a bad address was followed",
    ),
    contains(
        "kernel BUG at",
        "BUG(): the code met what it holds impossible",
    ),
    contains(
        "BUG: sleeping function called from invalid context",
        "sleeps where it must not",
    ),
    contains("BUG: scheduling while atomic", "sleeps where it must not"),
    contains("BUG: spinlock", "a spinlock is used wrongly"),
    contains("BUG: soft lockup", "a CPU does not schedule any more"),
    contains(
        "BUG: workqueue lockup",
        "a work queue does not move any more",
    ),
    starts("BUG: ", "BUG: the kernel checks itself and found a mistake"),
    contains("Oops: ", "oops"),
    contains(
        "possible circular locking dependency",
        "lockdep: two locks, two orders",
    ),
    contains(
        "possible recursive locking",
        "lockdep: a lock is taken twice",
    ),
    contains(
        "inconsistent lock state",
        "lockdep: a lock with and without interrupts off",
    ),
    contains("suspicious RCU usage", "lockdep: RCU without its read lock"),
    contains("bad unlock balance", "lockdep: an unlock without a lock"),
    contains("refcount_t: ", "a reference count overflows or underflows"),
    contains("UBSAN: ", "UBSAN: undefined behaviour"),
    contains("ODEBUG: ", "a timer or work is freed or started twice"),
    contains("list_add corruption", "a list is corrupted"),
    contains("list_del corruption", "a list is corrupted"),
    contains("DMA-API: ", "the DMA interface is used wrongly"),
    contains(
        "unreferenced object 0x",
        "kmemleak: memory that nobody points to",
    ),
    contains(
        "unregister_netdevice: waiting for",
        "a device's reference is leaked",
    ),
    contains("detected stalls on CPUs", "RCU: a CPU hangs"),
    contains("blocked for more than", "a task hangs"),
    starts("WARNING: ", "WARN(): the code met what it holds wrong"),
];

/// The first sign of trouble in a console log: the line and what it means.
pub fn find(console: &str) -> Option<(&str, &'static str)> {
    let hit = |splat: &'static Splat| {
        let line = console
            .lines()
            .map(without_stamp)
            .find(|line| splat.matches(line))?;
        Some((line.trim(), splat.means))
    };
    SPLATS.iter().find_map(hit)
}

/// The line of the panic, if there was one.
pub fn panic(console: &str) -> Option<&str> {
    console
        .lines()
        .map(without_stamp)
        .find(|line| line.contains(PANIC))
        .map(str::trim)
}

impl Splat {
    fn matches(&self, line: &str) -> bool {
        if self.at_start {
            line.starts_with(self.text)
        } else {
            line.contains(self.text)
        }
    }
}

/// A console line without `[    1.234567] `.
fn without_stamp(line: &str) -> &str {
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((stamp, rest)) if stamp.trim().parse::<f64>().is_ok() => rest,
        _ => line,
    }
}

/// Debian's package of a program, where it has another name.
const PACKAGES: &[(&str, &str)] = &[
    ("conntrack", "conntrack"),
    ("ip", "iproute2"),
    ("mausezahn", "netsniff-ng"),
    ("mz", "netsniff-ng"),
    ("nc", "netcat-openbsd"),
    ("nft", "nftables"),
    ("nstat", "iproute2"),
    ("ping", "iputils-ping"),
    ("ping6", "iputils-ping"),
    ("ss", "iproute2"),
    ("tc", "iproute2"),
];

/// Debian's package that brings a program.
pub fn package(tool: &str) -> &str {
    let known = PACKAGES.iter().find(|(name, _)| *name == tool);
    known.map_or(tool, |(_, package)| package)
}

/// Programs that a job's output says are not there; bash's own word for it
/// reaches PID 1 another way.
pub fn missing_tools(output: &str) -> Vec<String> {
    const SIGNS: &[(&str, &str)] = &[
        ("exec of \"", "\" failed: No such file or directory"),
        ("failed to run command '", "': No such file or directory"),
        (
            "failed to run command \u{2018}",
            "\u{2019}: No such file or directory",
        ),
    ];
    let mut tools = Vec::new();
    for line in output.lines() {
        for (before, after) in SIGNS {
            let Some((_, rest)) = line.split_once(before) else {
                continue;
            };
            let Some((tool, _)) = rest.split_once(after) else {
                continue;
            };
            if !tools.iter().any(|known| known == tool) {
                tools.push(tool.to_string());
            }
        }
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_trouble_behind_a_time_stamp() {
        let console = "[    0.100000] Linux version\n[    1.500000] WARNING: a.c:3 at f+0x1/0x2, CPU#0: ip/7\n";
        let (line, means) = find(console).unwrap();
        assert!(line.starts_with("WARNING: a.c:3") && means.starts_with("WARN()"));
        assert!(find("Linux version 7.3.4\nnote: no WARNING: here\n").is_none());
    }

    #[test]
    fn the_more_telling_sign_wins() {
        let console = "WARNING: x\nBUG: KASAN: slab-use-after-free in f\n";
        assert!(find(console).unwrap().1.starts_with("KASAN"));
    }

    #[test]
    fn a_panic_is_told_apart() {
        assert_eq!(
            panic("x\nKernel panic - not syncing: hello\n"),
            Some("Kernel panic - not syncing: hello")
        );
        assert_eq!(panic("x\n"), None);
    }

    #[test]
    fn finds_the_tools_that_are_not_there() {
        let output = "exec of \"mausezahn\" failed: No such file or directory\n\
                      timeout: failed to run command \u{2018}iperf3\u{2019}: No such file or directory\n";
        assert_eq!(missing_tools(output), ["mausezahn", "iperf3"]);
        assert_eq!(package("mausezahn"), "netsniff-ng");
        assert_eq!(package("iperf3"), "iperf3");
    }
}
