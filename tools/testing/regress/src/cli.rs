// SPDX-License-Identifier: GPL-2.0
//! The command line: what each command takes, and where it goes.

use crate::case;
use crate::project::Project;
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

/// Takes a public networking bug report and proves it fixed: broken on the
/// base kernel, fixed on the patched one, same machine, same run.
#[derive(Parser)]
#[command(
    version,
    max_term_width = 80,
    after_help = "KDIR=, O=, ARCH=, LLVM=1 and V=1 work as make's variables do: in the\n\
                  environment or anywhere behind `regress`, as in `regress build V=1`.\n\n\
                  Exit status: 0 all is well, 1 a verdict or check is bad, 2 an error."
)]
struct Cli {
    #[command(flatten)]
    variables: Variables,
    #[command(subcommand)]
    command: Command,
}

/// Make-style variables: `V=1` among the arguments is read as `--verbose=1`.
#[derive(Args)]
struct Variables {
    /// Your own kernel: a git tree, an unpacked tree or a tarball; it is never
    /// modified [default: Debian's linux-source]
    #[arg(long, env = "KDIR", global = true, hide_env_values = true)]
    kdir: Option<OsString>,
    /// Build folder: trees, objects, kernels, logs [default: build/ in the project]
    #[arg(long = "build-dir", env = "O", global = true, hide_env_values = true)]
    build: Option<OsString>,
    /// Architecture of the qemu lab
    #[arg(
        long,
        env = "ARCH",
        global = true,
        default_value = "x86_64",
        hide_env_values = true
    )]
    arch: String,
    /// 1: build with clang and lld
    #[arg(
        long,
        env = "LLVM",
        global = true,
        default_value = "0",
        hide_env_values = true
    )]
    llvm: String,
    /// 1: show the commands of a build
    #[arg(
        long,
        env = "V",
        global = true,
        default_value = "0",
        hide_env_values = true
    )]
    verbose: String,
}

/// The options behind the variables' names.
const VARIABLES: [(&str, &str); 5] = [
    ("KDIR", "--kdir"),
    ("O", "--build-dir"),
    ("ARCH", "--arch"),
    ("LLVM", "--llvm"),
    ("V", "--verbose"),
];

/// Which kernels of the assembled tree a command takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelChoice {
    Base,
    Patched,
    Both,
    /// Any revision of the assembled tree, in git's notation.
    Revision(String),
}

impl FromStr for KernelChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "base" => KernelChoice::Base,
            "patched" => KernelChoice::Patched,
            "both" => KernelChoice::Both,
            revision => KernelChoice::Revision(revision.to_string()),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabChoice {
    /// User Mode Linux
    Uml,
    /// QEMU
    Qemu,
}

/// Networking trees that mails go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MailTree {
    /// Fixes
    Net,
    /// Features
    NetNext,
}

impl MailTree {
    pub fn name(self) -> &'static str {
        match self {
            MailTree::Net => "net",
            MailTree::NetNext => "net-next",
        }
    }
}

#[derive(Args)]
pub struct TreeArgs {
    /// Look for a newer Debian source, even if there is one already
    #[arg(long)]
    pub update: bool,
    /// Give up changes in the work tree that were not refreshed; the old
    /// branch is kept under a backup name
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub struct RefreshArgs {
    /// Series that new commits join
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// Begins the series if it is not there: the tree that its mails go to
    #[arg(long, value_name = "TREE", requires = "series")]
    pub to: Option<MailTree>,
    /// New commits are tests or test support: part of base, too
    #[arg(long)]
    pub base: bool,
    /// Write every patch anew, unchanged ones too (hunks and hashes as they
    /// are on this tree)
    #[arg(long)]
    pub all: bool,
    /// Change nothing; fail if `refresh --all` would change a file
    #[arg(long)]
    pub check: bool,
}

#[derive(Args)]
pub struct SeriesArgs {
    /// Series to write [default: all]
    #[arg(value_name = "SERIES")]
    pub names: Vec<String>,
    /// Version of the mails, as in [PATCH net v2]
    #[arg(short = 'v', long = "reroll-count", value_name = "N")]
    pub version: Option<u32>,
    /// Also apply the mails one by one with `git am` to a clean base, and
    /// compare the result with the patched kernel; works without an identity
    #[arg(long)]
    pub check: bool,
}

#[derive(Args)]
pub struct BuildArgs {
    /// Kernels to build: base, patched, both, or a revision of the assembled tree
    #[arg(long, default_value = "both")]
    pub kernel: KernelChoice,
    /// Only this lab's kernels
    #[arg(long)]
    pub lab: Option<LabChoice>,
    /// With the debug profile: lockdep, KASAN, kmemleak
    #[arg(long)]
    pub debug: bool,
}

#[derive(Args)]
pub struct RunArgs {
    /// Cases to run, as `regress list` names them [default: all]
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// Only this lab's runs
    #[arg(long)]
    pub lab: Option<LabChoice>,
    /// Kernels to run: base, patched, both, or a revision of the assembled tree
    #[arg(long, default_value = "both")]
    pub kernel: KernelChoice,
    /// With the debug profile: lockdep, KASAN, kmemleak
    #[arg(long)]
    pub debug: bool,
    /// Run again what an earlier run in virtual time has shown already
    #[arg(long)]
    pub fresh: bool,
    /// Write the results to this file alone [default: results.json, results.txt,
    /// junit.xml and report.html in out/]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print KTAP instead of the table
    #[arg(long)]
    pub ktap: bool,
}

#[derive(Args)]
pub struct KunitArgs {
    /// Folders with a .kunitconfig [default: those of the cases]
    #[arg(value_name = "FOLDER")]
    pub folders: Vec<String>,
    /// Kernel: base, patched, both, or a revision of the assembled tree
    #[arg(long, default_value = "both")]
    pub kernel: KernelChoice,
}

#[derive(Args)]
pub struct SelftestArgs {
    /// Selftests below tools/testing/selftests [default: those of the cases]
    #[arg(value_name = "SELFTEST")]
    pub selftests: Vec<String>,
    /// Kernel: base, patched, both, or a revision of the assembled tree
    #[arg(long, default_value = "patched")]
    pub kernel: KernelChoice,
    #[arg(long, default_value = "qemu")]
    pub lab: LabChoice,
    /// With the debug profile: lockdep, KASAN, kmemleak
    #[arg(long)]
    pub debug: bool,
}

#[derive(Args)]
pub struct BootArgs {
    /// Kernel: base, patched, or a revision of the assembled tree
    #[arg(long, default_value = "patched")]
    pub kernel: KernelChoice,
    #[arg(long, default_value = "uml")]
    pub lab: LabChoice,
    /// With the debug profile: lockdep, KASAN, kmemleak
    #[arg(long)]
    pub debug: bool,
    /// User Mode Linux in virtual time: the clock moves only when every
    /// program sleeps, so a loop that never sleeps never ends
    #[arg(long)]
    pub virtual_time: bool,
    /// A parameter for the kernel, beside the lab's own; may be repeated
    #[arg(long = "parameter", value_name = "PARAMETER", value_parser = parameter)]
    pub parameters: Vec<String>,
    /// Give up after this much wall time, in seconds [default: never]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Command to run instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn parameter(text: &str) -> Result<String, String> {
    case::check_parameter(text).map(|()| text.to_string())
}

#[derive(Args)]
pub struct BisectArgs {
    /// The case that judges
    #[arg(value_name = "CASE")]
    pub case: String,
    /// A revision of KDIR that shows the fault
    #[arg(long, requires = "good", value_name = "REVISION")]
    pub bad: Option<String>,
    /// A revision of KDIR that does not; without good and bad, only KDIR's
    /// HEAD is judged, as `git bisect run` wants it: exit status 0 is good,
    /// 1 bad, 125 cannot tell
    #[arg(long, requires = "bad", value_name = "REVISION")]
    pub good: Option<String>,
}

#[derive(Args)]
pub struct TestArgs {
    /// Only the items whose name contains one of these [default: all]
    #[arg(value_name = "ITEM")]
    pub items: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// List the reports: cases, series and figures
    List,
    /// Install what this machine lacks (apt-get, as root or with sudo)
    Setup,
    /// Assemble the kernel tree: base, its tests, then the fixes, one commit a mail
    Tree(TreeArgs),
    /// Write what was changed in the assembled tree back into the project's files
    Refresh(RefreshArgs),
    /// Build the kernels
    Build(BuildArgs),
    /// Run the cases on base and patched, and judge them
    Run(RunArgs),
    /// Run the KUnit suites in User Mode Linux
    Kunit(KunitArgs),
    /// Run kernel selftests
    Selftest(SelftestArgs),
    /// Boot a kernel to a root shell on this machine's files, read-only
    Boot(BootArgs),
    /// Write the series as mails, ready for `git send-email`
    Series(SeriesArgs),
    /// Find the commit of KDIR that broke (or fixed) a case, with `git bisect`
    Bisect(BisectArgs),
    /// Run every test of the project
    Test(TestArgs),
}

/// Reads the command line and does what it says.
pub fn run() -> Result<ExitCode> {
    let cli = Cli::parse_from(with_variables(std::env::args_os()));
    let project = project(cli.variables)?;
    match cli.command {
        Command::Refresh(args) => crate::refresh::command(&project, &args),
        Command::Tree(args) => crate::tree::command(&project, &args),
        Command::Build(args) => crate::build::command(&project, &args),
        Command::Run(args) => crate::run::command(&project, &args),
        Command::Kunit(args) => crate::kunit::command(&project, &args),
        Command::Boot(args) => crate::boot::command(&project, &args),
        Command::List => crate::list::command(&project),
        Command::Selftest(args) => crate::selftest::command(&project, &args),
        Command::Bisect(args) => crate::bisect::command(&project, &args),
        Command::Setup => crate::setup::command(&project),
        Command::Series(args) => crate::mails::command(&project, &args),
        Command::Test(args) => crate::test::command(&project, &args),
    }
}

/// Turns `V=1` into `--verbose=1`, up to a `--`.
fn with_variables(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut open = true;
    args.map(|arg| {
        open &= arg != "--";
        if open {
            option_of(&arg).unwrap_or(arg)
        } else {
            arg
        }
    })
    .collect()
}

fn option_of(arg: &OsStr) -> Option<OsString> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = arg.as_bytes();
    VARIABLES.iter().find_map(|(variable, option)| {
        let value = bytes
            .strip_prefix(variable.as_bytes())?
            .strip_prefix(b"=")?;
        Some(OsString::from_vec(
            [option.as_bytes(), b"=", value].concat(),
        ))
    })
}

/// The project around the current folder; paths of variables are relative to
/// the current folder, and an empty variable is as good as none.
fn project(variables: Variables) -> Result<Project> {
    let root = Project::find_root()?;
    let cwd = std::env::current_dir().context("cannot tell the current folder")?;
    let given = |path: Option<OsString>| path.filter(|path| !path.is_empty());
    let on = |text: &str| !matches!(text, "" | "0");
    Ok(Project {
        build: given(variables.build).map_or_else(|| root.join("build"), |path| cwd.join(path)),
        out: root.join("out"),
        kdir: given(variables.kdir).map(|path| cwd.join(path)),
        arch: match variables.arch.as_str() {
            "" => "x86_64".into(),
            arch => arch.into(),
        },
        llvm: on(&variables.llvm),
        verbose: on(&variables.verbose),
        root,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn variables_are_options_until_a_double_dash() {
        let args = ["regress", "boot", "V=1", "KDIR=/a b", "X=1", "--", "O=x"];
        let read = with_variables(args.iter().map(OsString::from));
        assert_eq!(
            read,
            [
                "regress",
                "boot",
                "--verbose=1",
                "--kdir=/a b",
                "X=1",
                "--",
                "O=x"
            ]
        );
    }

    #[test]
    fn boot_takes_parameters() {
        let read = |parameter: &str| {
            let words = [
                "regress",
                "boot",
                "--parameter",
                "a=1",
                "--parameter",
                parameter,
            ];
            Cli::try_parse_from(words).map(|cli| match cli.command {
                Command::Boot(args) => args.parameters,
                _ => unreachable!("it says boot"),
            })
        };
        assert_eq!(read("b").unwrap(), ["a=1", "b"]);
        let error = read("init=/x").err().unwrap().to_string();
        assert!(error.contains("is set by the lab"), "{error}");
    }

    #[test]
    fn a_kernel_is_a_name_or_a_revision() {
        let read = |text: &str| text.parse::<KernelChoice>().unwrap();
        assert_eq!(read("both"), KernelChoice::Both);
        assert_eq!(
            read("patched~2"),
            KernelChoice::Revision("patched~2".into())
        );
    }
}
