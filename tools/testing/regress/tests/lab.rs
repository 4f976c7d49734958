// SPDX-License-Identifier: GPL-2.0
//! Real guests that end in every way there is, through the real program.
//!
//! They boot the project's patched kernel, which `regress test` has built; as
//! that takes a kernel tree, a plain `cargo test` leaves them out.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LKDTM: &str = "/sys/kernel/debug/provoke-crash/DIRECT";
const POWER_OFF: &str = "perl -e 'syscall(169, 0xfee1dead, 0x28121969, 0x4321fedc, 0)'";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .canonicalize()
        .unwrap()
}

fn build_folder() -> PathBuf {
    let given = std::env::var_os("O").filter(|folder| !folder.is_empty());
    root().join(given.unwrap_or_else(|| "build".into()))
}

fn regress() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regress"));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// `regress boot OPTIONS -- bash -c SCRIPT`.
fn boot(options: &[&str], script: &str) -> Command {
    let mut command = regress();
    command
        .arg("boot")
        .args(options)
        .args(["--", "bash", "-c", script]);
    command
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("regress ends by itself")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Boots with `script` and expects an error that says all of `words`.
fn fails(options: &[&str], script: &str, words: &[&str]) {
    let output = boot(options, script).output().unwrap();
    let stderr = stderr(&output);
    for word in words
        .iter()
        .chain(&["last lines of the console", "console.log"])
    {
        assert!(stderr.contains(word), "`{word}` is not in: {stderr}");
    }
    assert_eq!(status(&output), 2, "{stderr}");
}

const LABS: [&[&str]; 2] = [&["--lab", "uml"], &["--lab", "qemu"]];

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn the_exit_status_is_the_commands() {
    for lab in LABS {
        let output = boot(lab, "echo hello; exit 7").output().unwrap();
        assert_eq!(status(&output), 7, "{lab:?}: {}", stderr(&output));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "hello\n",
            "{lab:?}"
        );
    }
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn the_machines_files_are_read_only() {
    let mark = std::env::temp_dir().join(format!("regress-mark-{}", std::process::id()));
    let script = format!(
        "touch /etc/regress-mark && exit 1; touch {0}/regress-mark && exit 2; \
         touch /tmp/x /run/x /var/tmp/x {1} || exit 3; [ $(id -u) = 0 ]",
        root().display(),
        mark.display()
    );
    for lab in LABS {
        let output = boot(lab, &script).output().unwrap();
        assert_eq!(status(&output), 0, "{lab:?}: {}", stderr(&output));
    }
    assert!(!mark.exists());
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn a_panic_is_told() {
    for lab in LABS {
        fails(
            lab,
            &format!("echo PANIC >{LKDTM}"),
            &["panic: Kernel panic - not syncing: dumptest"],
        );
    }
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn a_warning_is_told_though_the_command_succeeds() {
    for lab in LABS {
        fails(
            lab,
            &format!("echo WARNING >{LKDTM}; true"),
            &["WARN()", "lkdtm"],
        );
    }
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn an_oops_is_told() {
    for lab in LABS {
        fails(lab, &format!("echo BUG >{LKDTM}; true"), &["panic"]);
    }
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn a_hang_is_told() {
    fails(
        &["--timeout", "6"],
        "echo before; sleep 1000",
        &["hang: no verdict within 6 s", "before"],
    );
    fails(
        &["--lab", "qemu", "--timeout", "30"],
        &format!("echo HARDLOCKUP >{LKDTM}; sleep 1000"),
        &["hang: no verdict within 30 s"],
    );
    // Virtual time stands still while something runs.
    fails(
        &["--virtual-time", "--timeout", "6"],
        "while :; do :; done",
        &["hang: no verdict within 6 s"],
    );
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn an_early_exit_is_told() {
    fails(
        &["--lab", "uml"],
        POWER_OFF,
        &["early exit: the kernel was gone before a verdict came"],
    );
    let reset = POWER_OFF.replace("0x4321fedc", "0x01234567");
    fails(
        &["--lab", "qemu"],
        &reset,
        &["early exit: the kernel was gone before a verdict came"],
    );
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn a_missing_tool_is_told_with_its_package() {
    fails(
        &[],
        "no-such-tool --help",
        &["missing in the guest: no-such-tool (Debian package no-such-tool)"],
    );
    fails(
        &[],
        "ip netns add a && ip netns exec a no-such-tool",
        &["missing in the guest: no-such-tool"],
    );
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn nothing_a_guest_prints_is_taken_for_a_verdict() {
    let output = boot(&[], "echo 'exit 0'; echo 'exit 0' >/dev/console; exit 3")
        .output()
        .unwrap();
    assert_eq!(status(&output), 3, "{}", stderr(&output));
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn a_full_disk_is_told() {
    let runs = build_folder().join("runs");
    std::fs::create_dir_all(&runs).unwrap();
    // In a chroot the root may be no mount that could be made private: what is
    // mounted on must be one, and the bind would reach the namespace around.
    let script = format!(
        "runs='{}'; mount --bind \"$runs\" \"$runs\" &&
         mount --make-private \"$runs\" && mount -t tmpfs -o size=1m none \"$runs\" &&
         '{}' boot -- true; status=$?; umount \"$runs\"; umount \"$runs\"; exit $status",
        runs.display(),
        env!("CARGO_BIN_EXE_regress")
    );
    let mut command = Command::new("unshare");
    // SAFETY: geteuid(2) cannot fail. Root needs no user namespace, and there
    // is none in a chroot.
    if unsafe { libc::geteuid() } != 0 {
        command.arg("--map-root-user");
    }
    command
        .args(["--mount", "--propagation=unchanged", "sh", "-c", &script])
        .current_dir(root());
    let output = command.output().unwrap();
    assert!(
        stderr(&output).contains("the disk is full:"),
        "{}",
        stderr(&output)
    );
    assert_eq!(status(&output), 2);
}

/// The processes of `regress` and of its guest, however they are called now.
fn family(parent: u32) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([parent]);
    loop {
        let before = family.len();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            if parent_of(pid).is_some_and(|parent| family.contains(&parent)) {
                family.insert(pid);
            }
        }
        if family.len() == before {
            return family;
        }
    }
}

/// State and parent of a process, from /proc/PID/stat.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

/// True unless it is gone, or dead and only not yet reaped.
fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Starts a guest that waits, and returns once its job runs.
fn waiting_guest(lab: &[&str]) -> Child {
    let mut command = boot(lab, "echo up; sleep 1000 & sleep 1000");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "up\n");
    child
}

fn leaves_nothing(signal: i32) {
    for lab in LABS {
        let mut child = waiting_guest(lab);
        let family = family(child.id());
        assert!(family.len() > 2, "a guest and the watchdog run: {family:?}");
        assert!(Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status()
            .unwrap()
            .success());
        child.wait().unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while family.iter().any(|&pid| is_alive(pid)) {
            assert!(
                Instant::now() < end,
                "{lab:?}: {family:?} left processes after signal {signal}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn ctrl_c_leaves_no_process() {
    leaves_nothing(2);
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn sigterm_leaves_no_process() {
    leaves_nothing(15);
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn sigkill_leaves_no_process() {
    leaves_nothing(9);
}

#[test]
#[ignore = "boots kernels: `regress test` runs it"]
fn a_second_run_waits_for_the_first() {
    let runs = build_folder().join("runs");
    std::fs::create_dir_all(&runs).unwrap();
    let lock = std::fs::File::create(runs.join("lock")).unwrap();
    // SAFETY: flock(2) on a descriptor that `lock` keeps open.
    assert_eq!(
        unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) },
        0,
        "no other regress is at work"
    );
    let json = std::env::temp_dir().join(format!("regress-second-{}.json", std::process::id()));
    let mut second = regress()
        .args(["run", "--lab", "uml", "--kernel", "patched", "--json"])
        .arg(&json)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(second.stderr.take().unwrap());
    let waits = said
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("waiting for another regress"));
    let ended = second.try_wait().unwrap();
    let _ = Command::new("kill")
        .args(["-INT", &second.id().to_string()])
        .status();
    second.wait().unwrap();
    assert!(waits && ended.is_none(), "the second did not wait");
    assert!(!json.exists());
}
