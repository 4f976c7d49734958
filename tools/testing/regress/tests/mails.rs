// SPDX-License-Identifier: GPL-2.0
//! Mails: who gets them, what is in them, and what is wrong with them.

mod common;

use common::{code, git, write_kernel, Fixture};
use std::fs;

/// A fixture whose Fixes: tag names the kernel's first commit.
fn tagged(subject: &str) -> Fixture {
    let fixture = Fixture::normal();
    let id = git(&fixture.kernel, &["rev-parse", "HEAD"]);
    let patch = fixture.read("net/ipv4/ten.patch");
    let tag = format!("Fixes: {} (\"{subject}\")", &id[..12]);
    fixture.write(
        "net/ipv4/ten.patch",
        &patch.replace("Fixes: 123456789abc (\"ipv4: count\")", &tag),
    );
    // With a clone, an unknown commit counts; the stand-in knows none.
    let accept = "[[accept]]\ntype = \"UNKNOWN_COMMIT_ID\"\nreason = \"a stand-in\"\n";
    fixture.write("tools/testing/regress/checkpatch.toml", accept);
    fixture
}

#[test]
fn mails_need_a_sender() {
    let fixture = Fixture::new();
    let said = fixture.fails(&["series"]);
    assert!(said.contains("git config --global user.name"), "{said}");
    assert!(!fixture.root.join("out").exists());
}

#[test]
fn mails_are_what_git_send_email_takes() {
    let fixture = tagged("Linux 7.3.4");
    fixture.introduce();
    fixture.write("series/demo.cover", "ipv4: count up to ten\n\nWhy.\n");
    let said = fixture.ok(&["series", "demo", "-v2", "--check"]);
    assert!(
        said.contains("0 findings") && said.contains("each applies"),
        "{said}"
    );
    let cover = fixture.read("out/demo/v2-0000-cover-letter.patch");
    assert!(
        cover.contains("Subject: [PATCH net v2 0/2] ipv4: count up to ten\n"),
        "{cover}"
    );
    assert!(
        cover.contains("\nWhy.\n") && !cover.contains("***"),
        "{cover}"
    );
    let base = git(&fixture.kernel, &["rev-parse", "HEAD"]);
    assert!(cover.contains(&format!("base-commit: {base}")), "{cover}");
    let mail = fixture.read("out/demo/v2-0001-ipv4-write-ten.patch");
    for part in [
        "From: A U Thor <author@example.org>\n",
        "Subject: [PATCH net v2 1/2] ipv4: write ten\n",
        "To: Ann M <ann@example.org>\nCc: netdev@example.org\n",
        "Linux 7.3.4\")\nSigned-off-by: A U Thor <author@example.org>\n---\nA note below the cut.\n\n net",
    ] {
        assert!(mail.contains(part), "`{part}` is not in: {mail}");
    }
    let test = fixture.read("out/demo/v2-0002-selftests-net-test-ten.patch");
    assert!(test.contains("new file mode 100755"), "{test}");
    // A second call replaces the mails.
    fixture.ok(&["series"]);
    let names = fs::read_dir(fixture.root.join("out/demo")).unwrap().count();
    assert_eq!(names, 3);
    let said = fixture.fails(&["series", "dream"]);
    assert!(
        said.contains("there is no series `dream`; the series are: demo"),
        "{said}"
    );
}

#[test]
fn more_than_two_mails_need_a_cover_letter() {
    let fixture = tagged("Linux 7.3.4");
    fixture.ok(&["tree"]);
    fixture.commit("net/ipv4/output.c", &code(&[(1, "x")]), "ipv4: x\n");
    fixture.ok(&["refresh", "--base"]);
    let said = fixture.fails(&["series", "--check"]);
    assert!(said.contains("series/demo.cover"), "{said}");
}

#[test]
fn fixes_tags_are_checked_where_there_is_history() {
    let said = tagged("Linux 7.3.5").fails(&["series", "--check"]);
    assert!(said.contains("is \"Linux 7.3.4\""), "{said}");
    assert!(said.contains("\n1 findings"), "{said}");
    // The fixture's own tag names a commit that is not there.
    let said = Fixture::normal().fails(&["series", "--check"]);
    assert!(
        said.contains("1 Fixes: tags could not be checked: the clone"),
        "{said}"
    );
    assert!(said.contains("UNKNOWN_COMMIT_ID"), "{said}");
    // A fix has one.
    let fixture = Fixture::normal();
    let patch = fixture.read("net/ipv4/ten.patch");
    let tag = "Fixes: 123456789abc (\"ipv4: count\")";
    fixture.write("net/ipv4/ten.patch", &patch.replace(tag, ""));
    let said = fixture.fails(&["series", "--check"]);
    assert!(
        said.contains("net/ipv4/ten.patch: a fix for net needs a Fixes: tag"),
        "{said}"
    );
    fixture.write(
        "net/ipv4/ten.patch",
        &patch.replace(tag, "Fixes: 1234 (\"x\")"),
    );
    let said = fixture.fails(&["series", "--check"]);
    assert!(said.contains("is not of the form"), "{said}");
}

#[test]
fn a_source_without_history_accepts_unknown_commits() {
    let mut fixture = Fixture::normal();
    let plain = fixture.scratch.dir.join("plain");
    write_kernel(&plain);
    fixture.kernel = plain;
    let said = fixture.ok(&["series", "--check"]);
    assert!(said.contains("1 UNKNOWN_COMMIT_ID accepted"), "{said}");
    assert!(said.contains("this kernel source has no history"), "{said}");
    let mails = fixture.root.join("build/check/demo");
    assert!(!fixture.root.join("out").exists() && mails.exists());
}

#[test]
fn what_checkpatch_finds_counts() {
    let fixture = tagged("Linux 7.3.4");
    let patch = fixture.read("net/ipv4/ten.patch");
    fixture.write(
        "net/ipv4/ten.patch",
        &patch.replace("+line ten", "+line BAD"),
    );
    let said = fixture.fails(&["series", "--check"]);
    assert!(said.contains("demo/0001-ipv4-write-ten.patch:"), "{said}");
    assert!(said.contains("WARNING:BAD_WORD: no"), "{said}");
    assert_eq!(fixture.run(&["series", "--check"]).status.code(), Some(1));
}

#[test]
fn a_series_must_apply_in_the_order_of_its_mails() {
    let fixture = tagged("Linux 7.3.4");
    fixture.write("series/demo.cover", "ipv4: count\n\nWhy.\n");
    fixture.ok(&["tree"]);
    // The fix needs a change that is before it in the tree only.
    fixture.in_tree(&["checkout", "--quiet", "-B", "regress", "base"]);
    fixture.commit("net/ipv4/route.c", &code(&[(10, "line X")]), "ipv4: X\n");
    let message = "ipv4: write ten\n\nFixes: 123456789abc (\"ipv4: count\")\n";
    fixture.commit("net/ipv4/route.c", &code(&[(10, "line ten")]), message);
    fixture.ok(&["refresh", "--base"]);
    let series = fixture.read("series/demo");
    assert!(
        series.find("ten.patch") < series.find("x.patch"),
        "{series}"
    );
    fixture.ok(&["tree"]);
    let said = fixture.fails(&["series", "--check"]);
    assert!(
        said.contains("does not apply in the order of its mails"),
        "{said}"
    );
    assert!(said.contains("net/ipv4/route.c, hunk 1"), "{said}");
}
