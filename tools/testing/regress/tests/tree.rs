// SPDX-License-Identifier: GPL-2.0
//! Assembling the tree, and everything that can be wrong with its input.

mod common;

use common::{code, git, make_kernel, snapshot, text, write, write_kernel, Fixture};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn base_comes_first_and_the_second_call_reuses_it() {
    let fixture = Fixture::new();
    fixture.ok(&["tree"]);
    let log = fixture.in_tree(&["log", "--format=%s", "--reverse", "HEAD~3..HEAD"]);
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        [
            "Kconfig: source the menu of net-regress",
            "selftests: net: test ten",
            "ipv4: write ten"
        ]
    );
    let base = fixture.in_tree(&["rev-parse", "base", "patched", "regress"]);
    assert_eq!(
        fixture.in_tree(&["rev-parse", "HEAD~1", "HEAD", "HEAD"]),
        base
    );
    assert_eq!(
        fs::read_to_string(fixture.tree().join("net/ipv4/route.c")).unwrap(),
        code(&[(10, "line ten")])
    );
    let mode = fixture.in_tree(&["ls-files", "--stage", "tools"]);
    assert!(mode.starts_with("100755 "), "{mode}");
    assert!(fs::read_to_string(fixture.tree().join("Kconfig.regress"))
        .unwrap()
        .contains("menu"));
    assert!(fixture
        .in_tree(&["notes", "show", "HEAD"])
        .contains("below the cut"));

    let again = fixture.ok(&["tree"]);
    assert!(again.contains("reused    assembled tree"), "{again}");
    // All from nothing gives the same commits.
    fs::remove_dir_all(fixture.root.join("build")).unwrap();
    fixture.ok(&["tree"]);
    assert_eq!(
        fixture.in_tree(&["rev-parse", "base", "patched", "regress"]),
        base
    );
}

#[test]
fn the_users_kernel_stays_as_it_is() {
    let fixture = Fixture::new();
    // Stale stat data would make a careless `git status` write the index.
    fs::write(fixture.kernel.join("Kbuild"), "obj-y += net/\n").unwrap();
    let before = snapshot(&fixture.kernel);
    fixture.ok(&["tree"]);
    fixture.commit("net/ipv4/route.c", &code(&[(10, "10")]), "ipv4: more\n");
    fixture.ok(&["refresh"]);
    fixture.ok(&["tree"]);
    assert_eq!(snapshot(&fixture.kernel), before);
}

#[test]
fn kdir_may_be_a_linked_work_tree_shallow_bare_or_relative() {
    let mut fixture = Fixture::new();
    let linked = fixture.scratch.dir.join("linked");
    git(
        &fixture.kernel,
        &["worktree", "add", "--quiet", linked.to_str().unwrap()],
    );
    fs::write(fixture.kernel.join("Kbuild"), "obj-y += net/ kernel/\n").unwrap();
    git(
        &fixture.kernel,
        &["commit", "--quiet", "--all", "--message=more"],
    );
    let url = format!("file://{}", fixture.kernel.display());
    let clone = |options: &[&str], name: &str| {
        let args = [&["clone", "--quiet", "--depth=1"], options, &[&url, name]].concat();
        git(&fixture.scratch.dir, &args);
        fixture.scratch.dir.join(name)
    };
    let kernels = [linked, clone(&[], "shallow"), clone(&["--bare"], "bare")];
    for kernel in kernels {
        let before = snapshot(&kernel);
        fixture.kernel = kernel.clone();
        fixture.ok(&["tree"]);
        fixture.in_tree(&["log", "--oneline"]);
        assert_eq!(snapshot(&kernel), before);
    }
    let said = fixture
        .command(&["tree", "KDIR=../kernel"])
        .env_remove("KDIR")
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", text(&said));
}

#[test]
fn kdir_may_be_a_tarball_or_a_plain_folder() {
    let mut fixture = Fixture::new();
    let plain = fixture.scratch.dir.join("linux-7.3.4");
    write_kernel(&plain);
    let mut commits = Vec::new();
    let tar = |option: &str, name: &str| {
        let status = Command::new("tar")
            .current_dir(&fixture.scratch.dir)
            .args([option, "-cf", name, "linux-7.3.4"])
            .status()
            .unwrap();
        assert!(status.success());
        fixture.scratch.dir.join(name)
    };
    let kernels = [
        tar("--xz", "k.tar.xz"),
        tar("--gzip", "k.tar.gz"),
        tar("--zstd", "k.tar.zst"),
        tar("--bzip2", "k.tar.bz2"),
        tar("--format=gnu", "k.tar"),
        plain.clone(),
    ];
    for kernel in kernels {
        fixture.kernel = kernel.clone();
        let said = fixture.ok(&["tree"]);
        assert!(said.contains("Linux 7.3.4 ("), "{said}");
        assert!(fixture.tree().join("scripts/run.sh").exists());
        assert!(fixture.in_tree(&["status", "--porcelain"]).is_empty());
        commits.push(fixture.in_tree(&["rev-parse", "patched^{tree}"]));
        if kernel.is_file() {
            let again = fixture.ok(&["tree"]);
            assert!(again.contains("reused    Linux 7.3.4 (k.tar"), "{again}");
        }
    }
    commits.dedup();
    assert_eq!(commits.len(), 1);

    write(&plain, "net/ipv4/new.c", "int new;\n");
    fixture.ok(&["tree"]);
    assert!(fixture.tree().join("net/ipv4/new.c").exists());
    assert!(!plain.join(".git").exists());
    write(&plain, ".config", "");
    let said = fixture.fails(&["tree"]);
    assert!(said.contains("make mrproper"), "{said}");
}

#[test]
fn a_bad_kdir_is_told_and_nothing_is_done() {
    let mut fixture = Fixture::new();
    fixture.ok(&["tree"]);
    let before = fixture.in_tree(&["rev-parse", "HEAD"]);
    let kernel = fixture.kernel.clone();

    fs::write(kernel.join("net/ipv4/route.c"), "dirty\n").unwrap();
    let said = fixture.fails(&["tree"]);
    assert!(said.contains(" M net/ipv4/route.c"), "{said}");
    assert!(said.contains("commit or stash"), "{said}");
    git(&kernel, &["checkout", "--quiet", "."]);

    fixture.kernel = fixture.scratch.dir.join("nowhere");
    let said = fixture.fails(&["tree"]);
    assert!(
        said.contains("nowhere") && said.contains("cannot be read"),
        "{said}"
    );

    let empty = fixture.scratch.dir.join("empty");
    fs::create_dir(&empty).unwrap();
    fixture.kernel = empty.clone();
    let said = fixture.fails(&["tree"]);
    assert!(
        said.contains("no kernel tree: there is no Kbuild"),
        "{said}"
    );

    git(&empty, &["init", "--quiet"]);
    let said = fixture.fails(&["tree"]);
    assert!(said.contains("no commit yet"), "{said}");

    fixture.kernel = fixture.scratch.dir.join("k.tar.xz");
    fs::write(&fixture.kernel, "no tarball").unwrap();
    let said = fixture.fails(&["tree"]);
    assert!(
        said.contains("tar") && said.contains("unpack.log"),
        "{said}"
    );

    fixture.kernel = kernel;
    assert_eq!(fixture.in_tree(&["rev-parse", "HEAD"]), before);
    assert!(fixture.ok(&["tree"]).contains("reused"));
}

#[test]
fn another_version_that_does_not_fit_leaves_the_old_tree() {
    let mut fixture = Fixture::new();
    fixture.ok(&["tree"]);
    let before = fixture.in_tree(&["rev-parse", "HEAD", "base", "patched"]);
    let other = fixture.scratch.dir.join("other");
    make_kernel(&other);
    write(
        &other,
        "net/ipv4/route.c",
        &code(&[(9, "nine"), (11, "eleven")]),
    );
    git(
        &other,
        &["commit", "--quiet", "--all", "--message=Linux 7.4"],
    );
    fixture.kernel = other;
    let said = fixture.fails(&["tree"]);
    for part in [
        "the series do not fit Linux 7.3.4, commit",
        "net/ipv4/ten.patch does not apply",
        "net/ipv4/route.c, hunk 1:\n@@ -7,7 +7,7 @@",
        "-line 10",
        "nothing was changed",
    ] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    assert_eq!(
        fixture.in_tree(&["rev-parse", "HEAD", "base", "patched"]),
        before
    );
    assert!(fixture.in_tree(&["status", "--porcelain"]).is_empty());
}

#[test]
fn a_patch_may_have_moved_or_need_a_merge() {
    let mut fixture = Fixture::normal();
    // Its lines moved: context is enough.
    let moved = format!("one\ntwo\nthree\n{}", code(&[]));
    write(&fixture.kernel, "net/ipv4/route.c", &moved);
    git(
        &fixture.kernel,
        &["commit", "--quiet", "--all", "--message=moved"],
    );
    let said = fixture.ok(&["tree"]);
    assert!(!said.contains("three-way"), "{said}");
    // Its context changed: only a merge with the old blob, which the clone has.
    let clone = fixture.scratch.dir.join("clone");
    git(
        &fixture.scratch.dir,
        &["clone", "--quiet", "kernel", "clone"],
    );
    write(&clone, "net/ipv4/route.c", &code(&[(13, "thirteen")]));
    git(&clone, &["commit", "--quiet", "--all", "--message=context"]);
    fixture.kernel = clone;
    let said = fixture.ok(&["tree"]);
    assert!(said.contains("needed a three-way merge"), "{said}");
    assert_eq!(
        fs::read_to_string(fixture.tree().join("net/ipv4/route.c")).unwrap(),
        code(&[(10, "line ten"), (13, "thirteen")])
    );
}

#[test]
fn a_missing_file_or_an_existing_new_one_is_told() {
    let fixture = Fixture::new();
    let patch = fixture.read("net/ipv4/ten.patch");
    fixture.write("net/ipv4/ten.patch", &patch.replace("route.c", "gone.c"));
    let said = fixture.fails(&["tree"]);
    assert!(
        said.contains("net/ipv4/gone.c: does not exist in index"),
        "{said}"
    );
    fixture.write("net/ipv4/ten.patch", &patch);

    fixture.write(
        "series/demo",
        "to net\nfix net/ipv4/ten.patch\n+ net/ipv4/output.c\n",
    );
    fixture.write("net/ipv4/output.c", "mine\n");
    let said = fixture.fails(&["tree"]);
    assert!(
        said.contains("net/ipv4/output.c joins") && said.contains("in the kernel already"),
        "{said}"
    );
    assert!(
        said.contains("note: tools/testing/selftests/net/test.sh is in no file below series/"),
        "{said}"
    );
}

#[test]
fn mistakes_in_series_files_are_told_with_file_and_line() {
    let fixture = Fixture::new();
    let head = "to net\nfix net/ipv4/ten.patch\n";
    for (text, message) in [
        ("fix net/ipv4/ten.patch\n", "series/demo:1: say `to net`"),
        ("# x\n", "series/demo:1: say `to net`"),
        ("to net\n", "series/demo:1: it lists no patch"),
        ("# x\nto linus\n", "series/demo:2: `linus` is no tree"),
        (&format!("{head}to net\n"), "series/demo:3: a second `to`"),
        (
            &format!("{head}fix net/ipv4/ten.patch\n"),
            "series/demo:3: `net/ipv4/ten.patch` is listed in series/demo:2",
        ),
        (
            &format!("{head}fix net/no.patch\n"),
            "series/demo:3: cannot read net/no.patch",
        ),
        (
            &format!("{head}fix net/no.c\n"),
            "series/demo:3: `net/no.c` must end in .patch",
        ),
        (&format!("{head}+ net/no.c\n"), "series/demo:3"),
        (
            &format!("{head}+ Makefile\n"),
            "series/demo:3: `Makefile` is the project's own",
        ),
        (
            &format!("{head}fix ../x.patch\n"),
            "series/demo:3: `../x.patch` must be a path below",
        ),
        (
            &format!("{head}drop x\n"),
            "series/demo:3: `drop x` is none of",
        ),
        (
            "to net\n+ net/x.c\n",
            "series/demo:2: there is no patch above",
        ),
        (
            "to net\nfix tools/testing/selftests/net/test.patch\n",
            "test.patch changes nothing",
        ),
    ] {
        fixture.write("series/demo", text);
        let said = fixture.fails(&["tree"]);
        assert!(said.contains(message), "`{message}` is not in: {said}");
    }
    fixture.write("series/demo", head);
    fixture.write("net/ipv4/ten.patch", "Subject: x\nFrom: me\n");
    let said = fixture.fails(&["tree"]);
    assert!(said.contains("net/ipv4/ten.patch:2: `From: me`"), "{said}");
}

#[test]
fn unrefreshed_work_is_never_lost() {
    let fixture = Fixture::normal();
    fixture.commit("net/ipv4/output.c", &code(&[(1, "mine")]), "ipv4: mine\n");
    let mine = fixture.in_tree(&["rev-parse", "HEAD"]);
    let said = fixture.ok(&["tree"]);
    assert!(said.contains("changes of yours"), "{said}");
    let patch = fixture.read("net/ipv4/ten.patch");
    fixture.write("net/ipv4/ten.patch", &patch.replace("line ten", "line TEN"));
    let said = fixture.fails(&["tree"]);
    assert!(
        said.contains("regress refresh") && said.contains("tree --force"),
        "{said}"
    );
    assert_eq!(fixture.in_tree(&["rev-parse", "HEAD"]), mine);
    let said = fixture.fails(&["refresh"]);
    assert!(
        said.contains("were changed since the tree was assembled"),
        "{said}"
    );

    write(&fixture.tree(), "net/ipv4/route.c", "uncommitted\n");
    assert!(fixture.fails(&["tree"]).contains("uncommitted changes"));
    let said = fixture.ok(&["tree", "--force"]);
    assert!(said.contains("kept as the branch backup/1"), "{said}");
    assert_eq!(fixture.in_tree(&["rev-parse", "backup/1^"]), mine);
    assert_eq!(
        fixture.in_tree(&["show", "backup/1:net/ipv4/route.c"]),
        "uncommitted"
    );
    assert_eq!(
        fs::read_to_string(fixture.tree().join("net/ipv4/route.c")).unwrap(),
        code(&[(10, "line TEN")])
    );
    // A work tree that was deleted comes back; its commits are kept.
    fixture.commit("net/ipv4/output.c", &code(&[(2, "again")]), "ipv4: again\n");
    fs::remove_dir_all(fixture.tree()).unwrap();
    let said = fixture.ok(&["tree"]);
    assert!(said.contains("backup/2"), "{said}");
    assert!(fixture.tree().join("Kbuild").exists());
}

#[test]
fn an_interrupted_run_is_finished_by_the_next() {
    let fixture = Fixture::normal();
    let expected = {
        let patch = fixture.read("net/ipv4/ten.patch");
        fixture.write("net/ipv4/ten.patch", &patch.replace("line ten", "line TEN"));
        fixture.ok(&["tree"]);
        let commit = fixture.in_tree(&["rev-parse", "HEAD"]);
        fixture.write("net/ipv4/ten.patch", &patch);
        fixture.ok(&["tree"]);
        fixture.write("net/ipv4/ten.patch", &patch.replace("line ten", "line TEN"));
        commit
    };
    // Killed after each delay: at any point, the next run gets it right.
    for delay in 0..25 {
        let mut child = fixture
            .command(&["tree"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay * 8));
        child.kill().unwrap();
        child.wait().unwrap();
        // What the killed run left running ends by itself.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fixture.ok(&["tree"]);
        assert_eq!(fixture.in_tree(&["rev-parse", "HEAD"]), expected);
        assert!(fixture
            .in_tree(&["status", "--porcelain", "-uno"])
            .is_empty());
        let patch = fixture.read("net/ipv4/ten.patch");
        fixture.write("net/ipv4/ten.patch", &patch.replace("line TEN", "line ten"));
        fixture.ok(&["tree"]);
        fixture.write("net/ipv4/ten.patch", &patch);
    }
}

#[test]
fn a_half_moved_work_tree_is_moved_on() {
    let fixture = Fixture::normal();
    let good = fixture.in_tree(&["rev-parse", "HEAD"]);
    let git_dir = fixture.root.join("build/git");
    fs::copy(git_dir.join("assembled.json"), git_dir.join("pending.json")).unwrap();
    fixture.in_tree(&["checkout", "--quiet", "--detach", "base"]);
    write(&fixture.tree(), "net/ipv4/output.c", "half\n");
    fs::write(git_dir.join("worktrees/linux.new/index.lock"), "").unwrap_or(());
    let said = fixture.ok(&["tree"]);
    assert!(said.contains("an earlier run was interrupted"), "{said}");
    assert_eq!(fixture.in_tree(&["rev-parse", "HEAD"]), good);
    assert_eq!(
        fixture.in_tree(&["show", "backup/1:net/ipv4/output.c"]),
        "half"
    );
}
