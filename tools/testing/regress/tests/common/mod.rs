// SPDX-License-Identifier: GPL-2.0
//! A kernel of a few lines and a project on top of it, in a temporary folder.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder that goes with the test.
pub struct Scratch {
    pub dir: PathBuf,
}

impl Scratch {
    pub fn new() -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("regress-test-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Scratch { dir }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// `git` as a user has it; fails the test if git fails.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.org")
        .env("GIT_COMMITTER_NAME", "A U Thor")
        .env("GIT_COMMITTER_EMAIL", "author@example.org")
        .env("GIT_EDITOR", "true")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_string()
}

/// Forty lines, so that hunks have context.
pub fn code(changed: &[(usize, &str)]) -> String {
    (1..=40)
        .map(
            |number| match changed.iter().find(|(line, _)| *line == number) {
                Some((_, text)) => format!("{text}\n"),
                None => format!("line {number}\n"),
            },
        )
        .collect()
}

/// Writes a kernel's top level and two files of code.
pub fn write_kernel(dir: &Path) {
    write(
        dir,
        "Makefile",
        "# SPDX-License-Identifier: GPL-2.0\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n",
    );
    write(dir, "Kconfig", "mainmenu \"Linux\"\n");
    write(dir, "Kbuild", "obj-y += net/\n");
    write(dir, "MAINTAINERS", "NETWORKING\n");
    write(dir, "kernel/fork.c", "int fork;\n");
    write(dir, ".gitignore", "*.o\n/*\n");
    write(dir, ".gitattributes", "*.c diff=cpp\n");
    write(dir, "net/ipv4/route.c", &code(&[]));
    write(dir, "net/ipv4/output.c", &code(&[]));
    write(dir, "scripts/run.sh", "#!/bin/sh\n");
    // Stand-ins for the kernel's own, with the options that they are given.
    write(
        dir,
        "scripts/get_maintainer.pl",
        "my $cc = grep { $_ eq '--no-m' } @ARGV;\n\
         die 'no mails' unless grep { /^[^-].*patch$/ && -s $_ } @ARGV;\n\
         print $cc ? \"netdev\\@example.org\\n\" : \"Ann M <ann\\@example.org>\\n\";\n",
    );
    write(
        dir,
        "scripts/checkpatch.pl",
        "my $mail = $ARGV[-1]; open(my $in, '<', $mail) or die; my $bad = 0;\n\
         while (<$in>) {\n\
         if (/line BAD/) { $bad = 1; print \"$mail:$.: WARNING:BAD_WORD: no\\n\"; }\n\
         if (/^Fixes/) { $bad = 1; print \"$mail:$.: WARNING:UNKNOWN_COMMIT_ID: no\\n\"; }\n\
         }\n\
         exit $bad;\n",
    );
}

pub fn make_kernel(dir: &Path) {
    write_kernel(dir);
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    git(dir, &["add", "--all", "--force"]);
    git(dir, &["commit", "--quiet", "--message=Linux 7.3.4"]);
}

/// A project with one series on a small kernel.
pub struct Fixture {
    pub scratch: Scratch,
    pub root: PathBuf,
    pub kernel: PathBuf,
}

const EDIT: &str = "\
diff --git a/net/ipv4/route.c b/net/ipv4/route.c
--- a/net/ipv4/route.c
+++ b/net/ipv4/route.c
@@ -7,7 +7,7 @@ line 6
 line 7
 line 8
 line 9
-line 10
+line ten
 line 11
 line 12
 line 13
";

impl Fixture {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let fixture = Fixture {
            root: scratch.dir.join("project"),
            kernel: scratch.dir.join("kernel"),
            scratch,
        };
        make_kernel(&fixture.kernel);
        let harness = fixture.root.join("tools/testing/regress");
        fs::create_dir_all(&harness).unwrap();
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpatch.toml");
        fs::copy(real, harness.join("checkpatch.toml")).unwrap();
        fixture.write("Kconfig", "menu \"net-regress\"\nendmenu\n");
        fixture.write(
            "series/demo",
            "# SPDX-License-Identifier: GPL-2.0\n# How it goes.\nto net\n\n\
             fix  net/ipv4/ten.patch\n# the test\nbase tools/testing/selftests/net/test.patch\n\
             +    tools/testing/selftests/net/test.sh\n# end\n",
        );
        fixture.write(
            "net/ipv4/ten.patch",
            &format!(
                "Subject: ipv4: write ten\n\n  Indented,  with   blanks.  \n\n\n\tTwo blank lines.\n\n\
                 Fixes: 123456789abc (\"ipv4: count\")\n---\nA note below the cut.\n\n{EDIT}"
            ),
        );
        fixture.write(
            "tools/testing/selftests/net/test.patch",
            "Subject: selftests: net: test ten\n\nIt is new.\n",
        );
        fixture.write("tools/testing/selftests/net/test.sh", "#!/bin/sh\nexit 0\n");
        make_executable(&fixture.root.join("tools/testing/selftests/net/test.sh"));
        fixture
    }

    /// A project whose patches are in the form that we write.
    pub fn normal() -> Self {
        let fixture = Fixture::new();
        fixture.ok(&["tree"]);
        fixture.ok(&["refresh", "--all"]);
        fixture
    }

    pub fn write(&self, path: &str, text: &str) {
        write(&self.root, path, text);
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    pub fn tree(&self) -> PathBuf {
        self.root.join("build/linux")
    }

    pub fn in_tree(&self, args: &[&str]) -> String {
        git(&self.tree(), args)
    }

    /// Commits a file's new content in the assembled tree.
    pub fn commit(&self, path: &str, text: &str, message: &str) {
        write(&self.tree(), path, text);
        self.in_tree(&["add", "--force", path]);
        self.in_tree(&[
            "commit",
            "--quiet",
            "--cleanup=verbatim",
            "--message",
            message,
        ]);
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regress"));
        command
            .args(args)
            .current_dir(&self.root)
            .env("KDIR", &self.kernel)
            .env_remove("RUST_BACKTRACE")
            .env("GIT_CONFIG_GLOBAL", self.scratch.dir.join("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("O")
            .env_remove("V")
            .env_remove("ARCH");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs `regress`, which must succeed; what it printed, errors first.
    pub fn ok(&self, args: &[&str]) -> String {
        succeeded(&self.run(args))
    }

    /// Gives the user a name.
    pub fn introduce(&self) {
        let text = "[user]\nname = A U Thor\nemail = author@example.org\n";
        write(&self.scratch.dir, "gitconfig", text);
    }

    /// Runs `regress`, which must fail; what it said.
    pub fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let said = text(&output);
        assert!(
            !output.status.success(),
            "regress {args:?} succeeded: {said}"
        );
        said
    }

    /// Every file of the project with its mode, without the build folder.
    pub fn snapshot(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut files = snapshot(&self.root);
        files.retain(|path, _| !path.starts_with("build/") && !path.starts_with("out/"));
        files
    }
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stderr[..], &output.stdout[..]].concat()).into_owned()
}

pub fn succeeded(output: &Output) -> String {
    let said = text(output);
    assert!(output.status.success(), "{said}");
    said
}

/// Every file below a folder: mode and content.
pub fn snapshot(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let state = path.symlink_metadata().unwrap();
            if state.is_dir() {
                folders.push(path);
                continue;
            }
            let content = if state.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let name = path
                .strip_prefix(dir)
                .unwrap()
                .to_string_lossy()
                .into_owned();
            files.insert(name, (state.mode(), content));
        }
    }
    files
}
