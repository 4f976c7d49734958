// SPDX-License-Identifier: GPL-2.0
//! The round trip between the project's files and the assembled tree.

mod common;

use common::{code, git, make_executable, write, Fixture};
use std::fs;

const TEN: &str = "net/ipv4/ten.patch";
const SCRIPT: &str = "tools/testing/selftests/net/test.sh";

/// Melts the fixups among the last four commits into what they amend.
fn autosquash(fixture: &Fixture) {
    let rebase = [
        "rebase",
        "--quiet",
        "--interactive",
        "--autosquash",
        "HEAD~4",
    ];
    fixture.in_tree(&rebase);
}

#[test]
fn the_round_trip_is_lossless() {
    let fixture = Fixture::new();
    fixture.ok(&["tree"]);
    let before = fixture.snapshot();
    let said = fixture.ok(&["refresh"]);
    assert!(said.contains("nothing has changed"), "{said}");
    assert_eq!(fixture.snapshot(), before);
    // The fixture's patch lacks hashes, so the normal form differs: once.
    let said = fixture.fails(&["refresh", "--check"]);
    assert!(said.contains(TEN) && !said.contains("test.patch"), "{said}");
    fixture.ok(&["refresh", "--all"]);
    let normal = fixture.read(TEN);
    assert!(
        normal.contains("\n  Indented,  with   blanks.  \n\n\n\tTwo"),
        "{normal}"
    );
    assert!(
        normal.contains("\n---\nA note below the cut.\n\ndiff --git"),
        "{normal}"
    );
    assert!(
        normal.starts_with("Subject: ipv4: write ten\n\n"),
        "{normal}"
    );
    assert!(
        !normal.contains("Date:") && !normal.contains("From"),
        "{normal}"
    );
    fixture.ok(&["refresh", "--check"]);
    let before = fixture.snapshot();
    fixture.ok(&["refresh", "--all"]);
    fs::remove_dir_all(fixture.root.join("build")).unwrap();
    fixture.ok(&["tree"]);
    fixture.ok(&["refresh", "--all"]);
    assert_eq!(fixture.snapshot(), before);
}

/// Refreshes, and proves that assembling the result anew gives the same tree.
fn refresh(fixture: &Fixture, args: &[&str]) -> String {
    let tree = fixture.in_tree(&["rev-parse", "HEAD^{tree}"]);
    let said = fixture.ok(&[&["refresh"], args].concat());
    assert_eq!(fixture.in_tree(&["rev-parse", "HEAD^{tree}"]), tree);
    assert!(fixture
        .in_tree(&["status", "--porcelain", "-uno"])
        .is_empty());
    let commits = fixture.in_tree(&["rev-parse", "base", "patched"]);
    fs::remove_dir_all(fixture.root.join("build")).unwrap();
    fixture.ok(&["tree"]);
    assert_eq!(fixture.in_tree(&["rev-parse", "base", "patched"]), commits);
    assert_eq!(fixture.in_tree(&["rev-parse", "HEAD^{tree}"]), tree);
    fixture.ok(&["refresh", "--check"]);
    said
}

#[test]
fn amended_and_reworded_commits_find_their_patch() {
    let fixture = Fixture::normal();
    let series = fixture.read("series/demo");
    write(
        &fixture.tree(),
        "net/ipv4/route.c",
        &code(&[(10, "line 0xa")]),
    );
    let message = "net: ipv4: ten in hex\n\nBecause.  \n\n\n\tTab.";
    fixture.in_tree(&[
        "commit",
        "--quiet",
        "--all",
        "--amend",
        "--cleanup=verbatim",
        "--message",
        message,
    ]);
    let said = refresh(&fixture, &[]);
    assert!(said.contains(&format!("changed  {TEN}")), "{said}");
    let patch = fixture.read(TEN);
    assert!(
        patch.starts_with("Subject: net: ipv4: ten in hex\n\nBecause.  \n\n\n\tTab.\n---\n"),
        "{patch}"
    );
    assert!(patch.contains("+line 0xa"), "{patch}");
    assert!(patch.contains("A note below the cut."), "{patch}");
    assert_eq!(fixture.read("series/demo"), series);
}

#[test]
fn a_changed_new_file_goes_back_with_its_mode() {
    let fixture = Fixture::normal();
    let patch = fixture.read("tools/testing/selftests/net/test.patch");
    let script = fixture.tree().join(SCRIPT);
    fs::write(&script, "#!/bin/sh\nexit 1\n").unwrap();
    fixture.in_tree(&["update-index", "--chmod=-x", SCRIPT]);
    fixture.in_tree(&["config", "core.fileMode", "false"]);
    fixture.in_tree(&["commit", "--quiet", "--all", "--fixup=HEAD~1"]);
    fixture.in_tree(&["config", "--unset", "core.fileMode"]);
    git(&fixture.tree(), &["checkout", "--quiet", "--force", "."]);
    fixture.in_tree(&["-c", "core.fileMode=true", "status"]);
    autosquash(&fixture);
    let said = refresh(&fixture, &[]);
    assert!(said.contains(&format!("changed  {SCRIPT}")), "{said}");
    assert_eq!(fixture.read(SCRIPT), "#!/bin/sh\nexit 1\n");
    assert_eq!(fixture.snapshot()[SCRIPT].0 & 0o111, 0);
    assert_eq!(
        fixture.read("tools/testing/selftests/net/test.patch"),
        patch
    );
}

#[test]
fn a_new_commit_needs_a_series_and_gets_a_name() {
    let fixture = Fixture::normal();
    fixture.write(
        "series/other",
        "# SPDX-License-Identifier: GPL-2.0\nto net-next\nfix net/other.patch\n+ net/other.c\n",
    );
    fixture.write("net/other.patch", "Subject: net: other\n");
    fixture.write("net/other.c", "int other;\n");
    fixture.ok(&["tree"]);
    write(&fixture.tree(), "net/ipv4/more.c", "int more;\n");
    fixture.in_tree(&["add", "--force", "net/ipv4/more.c"]);
    fixture.commit(
        "net/ipv4/output.c",
        &code(&[(20, "twenty")]),
        "net: ipv4: Count: twenty\n\nBody.\n",
    );
    let before = fixture.snapshot();
    let said = fixture.fails(&["refresh"]);
    assert!(
        said.contains("net: ipv4: Count: twenty") && said.contains("demo, other"),
        "{said}"
    );
    assert_eq!(fixture.snapshot(), before);
    let said = fixture.fails(&["refresh", "--series=third"]);
    assert!(said.contains("--to net"), "{said}");
    refresh(&fixture, &["--series=demo", "--base"]);
    let series = fixture.read("series/demo");
    assert!(
        series.contains("test.sh\nbase net/ipv4/twenty.patch\n+    net/ipv4/more.c\n# end\n"),
        "{series}"
    );
    assert_eq!(fixture.read("net/ipv4/more.c"), "int more;\n");
    assert!(!fixture.read("net/ipv4/twenty.patch").contains("more.c"));

    fixture.commit(
        "net/ipv4/output.c",
        &code(&[(20, "twenty"), (30, "x")]),
        "ipv4: thirty\n",
    );
    refresh(&fixture, &["--series=third", "--to=net-next"]);
    assert_eq!(
        fixture.read("series/third"),
        "# SPDX-License-Identifier: GPL-2.0\nto net-next\nfix  net/ipv4/thirty.patch\n"
    );
}

#[test]
fn reordered_and_dropped_commits_change_the_series() {
    let fixture = Fixture::normal();
    fixture.commit(
        "net/ipv4/output.c",
        &code(&[(20, "twenty")]),
        "ipv4: twenty\n",
    );
    refresh(&fixture, &[]);
    assert!(fixture
        .read("series/demo")
        .contains("ten.patch\nfix  net/ipv4/twenty.patch\n# the test\n"));
    // Swap the two fixes.
    let (ten, twenty) = ("HEAD~1", "HEAD");
    let ids = fixture.in_tree(&["rev-parse", twenty, ten]);
    fixture.in_tree(&["reset", "--quiet", "--hard", "base"]);
    for id in ids.lines() {
        fixture.in_tree(&["cherry-pick", id]);
    }
    refresh(&fixture, &[]);
    let series = fixture.read("series/demo");
    assert!(series.contains("fix  net/ipv4/twenty.patch\n"), "{series}");
    assert!(
        series.find("twenty.patch") < series.find("ten.patch"),
        "{series}"
    );
    // Drop one, and the test.
    let said = {
        let twenty = fixture.in_tree(&["rev-parse", "HEAD~1"]);
        fixture.in_tree(&["reset", "--quiet", "--hard", "base~1"]);
        fixture.in_tree(&["cherry-pick", &twenty]);
        refresh(&fixture, &[])
    };
    for path in [TEN, SCRIPT, "tools/testing/selftests/net/test.patch"] {
        assert!(said.contains(&format!("removed  {path}")), "{said}");
        assert!(!fixture.root.join(path).exists());
    }
    assert!(!fixture.root.join("tools/testing/selftests").exists());
}

#[test]
fn what_refresh_replaces_is_kept() {
    let fixture = Fixture::normal();
    let before = fixture.read(TEN);
    fixture.in_tree(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let said = fixture.ok(&["refresh"]);
    assert!(said.contains("build/refreshed/"), "{said}");
    let number = fs::read_dir(fixture.root.join("build/refreshed"))
        .unwrap()
        .count();
    let kept = format!("build/refreshed/{number}/{TEN}");
    assert_eq!(fixture.read(&kept), before);
}

#[test]
fn renames_modes_links_and_binaries_survive() {
    let fixture = Fixture::normal();
    let tree = fixture.tree();
    fixture.in_tree(&["mv", "net/ipv4/output.c", "net/ipv4/ip_output.c"]);
    write(&tree, "net/ipv4/ip_output.c", &code(&[(3, "three")]));
    make_executable(&tree.join("net/ipv4/route.c"));
    fixture.in_tree(&["rm", "--quiet", "kernel/fork.c"]);
    std::os::unix::fs::symlink("route.c", tree.join("net/ipv4/link.c")).unwrap();
    fs::write(tree.join("net/ipv4/empty.h"), "").unwrap();
    fs::write(tree.join("net/ipv4/blob.bin"), [0u8, 255, 10, 0, 13]).unwrap();
    // Names that the project has for itself stay in the patch.
    write(&tree, "series/odd.txt", "odd\n");
    fixture.in_tree(&["add", "--force", "--all", "net", "series"]);
    fixture.in_tree(&[
        "commit",
        "--quiet",
        "--all",
        "--message=net: ipv4: move\n\nAll.",
    ]);
    refresh(&fixture, &[]);
    let patch = fixture.read("kernel/move.patch");
    assert!(patch.contains("rename from net/ipv4/output.c"), "{patch}");
    assert!(
        patch.contains("old mode 100644\nnew mode 100755"),
        "{patch}"
    );
    assert!(patch.contains("series/odd.txt"), "{patch}");
    let link = fs::read_link(fixture.root.join("net/ipv4/link.c")).unwrap();
    assert_eq!(link.to_str(), Some("route.c"));
    assert_eq!(
        fs::read(fixture.root.join("net/ipv4/blob.bin")).unwrap(),
        [0, 255, 10, 0, 13]
    );
    assert!(!fixture.root.join("series/odd.txt").exists());
}

#[test]
fn the_menu_goes_back_and_only_from_its_own_commit() {
    let fixture = Fixture::normal();
    write(
        &fixture.tree(),
        "Kconfig.regress",
        "menu \"changed\"\nendmenu\n",
    );
    fixture.in_tree(&["commit", "--quiet", "--all", "--message=menu"]);
    let said = fixture.fails(&["refresh"]);
    assert!(
        said.contains("Kconfig.regress") && said.contains("move that into"),
        "{said}"
    );
    fixture.in_tree(&["reset", "--quiet", "--soft", "HEAD~1"]);
    fixture.in_tree(&["commit", "--quiet", "--fixup=HEAD~2"]);
    autosquash(&fixture);
    refresh(&fixture, &[]);
    assert_eq!(fixture.read("Kconfig"), "menu \"changed\"\nendmenu\n");
}

#[test]
fn what_cannot_be_stored_is_refused_before_anything_is_written() {
    let fixture = Fixture::normal();
    let good = fixture.in_tree(&["rev-parse", "HEAD"]);
    let before = fixture.snapshot();
    let refused = |why: &str| {
        let said = fixture.fails(&["refresh"]);
        assert!(said.contains(why), "`{why}` is not in: {said}");
        assert_eq!(fixture.snapshot(), before);
        fixture.in_tree(&["reset", "--quiet", "--hard", &good]);
    };
    write(&fixture.tree(), "net/ipv4/route.c", "x\n");
    refused(" M net/ipv4/route.c");
    fixture.commit("net/ipv4/output.c", "x\n", "ipv4: x\n\na\n---\nb\n");
    refused("would take the line `---`");
    fixture.in_tree(&["commit", "--quiet", "--allow-empty", "--message=nothing"]);
    refused("changes nothing");
    fixture.in_tree(&["reset", "--quiet", "--hard", "HEAD~3"]);
    refused("is gone");
    fixture.in_tree(&["checkout", "--quiet", "--detach", "base"]);
    fixture.commit("net/ipv4/output.c", &code(&[(1, "a")]), "ipv4: a\n");
    fixture.in_tree(&["merge", "--quiet", "--no-edit", &good]);
    refused("is a merge");
    // A new file may not take a name that the project has for something else.
    fixture.write("net/ipv4/mine.c", "not listed\n");
    let before = fixture.snapshot();
    fixture.commit("net/ipv4/mine.c", "new\n", "ipv4: mine\n");
    let said = fixture.fails(&["refresh"]);
    assert!(
        said.contains("net/ipv4/mine.c is to be written, but"),
        "{said}"
    );
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn an_interrupted_refresh_is_finished_by_the_next_command() {
    let fixture = Fixture::normal();
    let build = fixture.root.join("build");
    write(
        &build,
        "refresh.ready/files/net/ipv4/ten.patch",
        "Subject: x\n",
    );
    write(
        &build,
        "refresh.ready/manifest.json",
        "{\"write\":[\"net/ipv4/ten.patch\"],\"remove\":[\"series/demo\"]}",
    );
    let before = fixture.read(TEN);
    fixture.ok(&["tree"]);
    assert_eq!(fixture.read(TEN), "Subject: x\n");
    assert!(!fixture.root.join("series/demo").exists());
    let number = fs::read_dir(build.join("refreshed")).unwrap().count();
    assert_eq!(
        fixture.read(&format!("build/refreshed/{number}/{TEN}")),
        before
    );
}
