// SPDX-License-Identifier: GPL-2.0
//! Kernels: built from commits of the assembled tree, each only once.
//!
//! One source work tree is switched from commit to commit, and each target has
//! one object folder, so that patched is an incremental build on base. A
//! finished kernel is stored under its commit, configuration and toolchain.

use crate::case::Lab;
use crate::cli::{BuildArgs, KernelChoice, LabChoice};
use crate::lock;
use crate::process::{self, Group};
use crate::project::Project;
use crate::rust::Rust;
use crate::tree::{self, Assembled, Kernel};
use crate::ui;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The same bytes on every machine (Documentation/kbuild/reproducible-builds.rst);
/// the random numbers of virtual time begin with uname(2)'s strings. An empty
/// LOCALVERSION keeps git out.
const REPRODUCIBLE: [&str; 5] = [
    "LOCALVERSION=",
    "KBUILD_BUILD_USER=regress",
    "KBUILD_BUILD_HOST=regress",
    "KBUILD_BUILD_VERSION=1",
    "KBUILD_BUILD_TIMESTAMP=1970-01-01",
];

/// What a kernel is built for; UML's labs share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Uml,
    Qemu,
}

impl From<Lab> for Target {
    fn from(lab: Lab) -> Self {
        match lab {
            Lab::Uml | Lab::UmlRealtime => Target::Uml,
            Lab::Qemu => Target::Qemu,
        }
    }
}

impl From<LabChoice> for Target {
    fn from(lab: LabChoice) -> Self {
        match lab {
            LabChoice::Uml => Target::Uml,
            LabChoice::Qemu => Target::Qemu,
        }
    }
}

/// A kernel that is ready to boot.
#[derive(Debug, Clone)]
pub struct Image {
    pub kernel: Kernel,
    pub target: Target,
    pub path: PathBuf,
}

/// What building takes beside the commit.
pub struct Builder<'a> {
    project: &'a Project,
    assembled: &'a Assembled,
    /// With the debug profile: lockdep, KASAN, kmemleak.
    debug: bool,
    rust: Rust,
}

/// `regress build`.
pub fn command(project: &Project, args: &BuildArgs) -> Result<ExitCode> {
    let assembled = tree::kernels(project)?;
    let targets = args
        .lab
        .map_or(vec![Target::Uml, Target::Qemu], |lab| vec![lab.into()]);
    let images = Builder::new(project, &assembled, args.debug).images(&args.kernel, &targets)?;
    for image in images {
        println!("{}", image.path.display());
    }
    Ok(ExitCode::SUCCESS)
}

impl<'a> Builder<'a> {
    pub fn new(project: &'a Project, assembled: &'a Assembled, debug: bool) -> Self {
        Builder {
            project,
            assembled,
            debug,
            rust: Rust::look(project),
        }
    }

    /// The chosen kernels for every target, base before patched; builds what
    /// is not there yet.
    pub fn images(&self, choice: &KernelChoice, targets: &[Target]) -> Result<Vec<Image>> {
        check_path(&self.project.build)?;
        let _lock = lock::acquire(&self.project.build)?;
        let mut images = Vec::new();
        for kernel in self.assembled.choose(choice)? {
            for &target in targets {
                images.push(self.image(&kernel, target)?);
            }
        }
        Ok(images)
    }

    fn image(&self, kernel: &Kernel, target: Target) -> Result<Image> {
        let config = self.config(target)?;
        let mut asked = config.clone();
        if asks_for_rust(&config) {
            self.rust.check()?;
            asked += &self.rust.describe();
        }
        let store = store(self.project, &kernel.commit, &self.label(target), &asked)?;
        let path = store.join(self.file(target));
        let what = format!("{} kernel for {}", kernel.name, self.label(target));
        if path.is_file() {
            ui::reused(&what);
        } else {
            let step = ui::Step::start(format!("building the {what}"));
            self.assembled.checkout(&kernel.commit, &self.source())?;
            self.configure(target, &config)?;
            self.make(target, &kernel.name, &step)?;
            self.keep(target, &store)?;
            step.done("");
        }
        Ok(Image {
            kernel: kernel.clone(),
            target,
            path,
        })
    }

    /// The linked work tree that everything is built from.
    pub fn source(&self) -> PathBuf {
        self.project.build.join("source")
    }

    /// Object folders stand in the source's, where make uses no absolute path:
    /// ccache then knows the same file again in another build folder.
    fn objects(&self, target: Target) -> PathBuf {
        self.source()
            .join(format!("objects-{}", self.label(target)))
    }

    fn label(&self, target: Target) -> String {
        let lab = match target {
            Target::Uml => "uml".to_string(),
            Target::Qemu => format!("qemu-{}", self.project.arch),
        };
        if self.debug {
            lab + "-debug"
        } else {
            lab
        }
    }

    /// The file that boots.
    fn file(&self, target: Target) -> &'static str {
        match target {
            Target::Uml => "linux",
            Target::Qemu => "bzImage",
        }
    }

    /// The fragments that ask for this target's options, one after the other.
    fn config(&self, target: Target) -> Result<String> {
        let lab = match target {
            Target::Uml => "uml".to_string(),
            Target::Qemu => format!("qemu-{}", self.project.arch),
        };
        let configs = self.project.harness().join("configs");
        let mut names = vec!["common".to_string(), lab.clone()];
        if self.debug {
            names.extend(["debug".to_string(), format!("debug-{lab}")]);
            let compiler = compiler_name(self.project);
            names.push(format!("debug-{compiler}"));
        }
        let mut text = String::new();
        for name in names {
            let path = configs.join(format!("{name}.config"));
            match fs::read_to_string(&path) {
                Ok(fragment) => text.push_str(&fragment),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && name == lab => bail!(
                    "ARCH={}: the qemu lab has no configuration for it ({} is not there)",
                    self.project.arch,
                    path.display()
                ),
                // A lab, a compiler need not have a debug profile of its own.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", path.display()))
                }
            }
        }
        Ok(text)
    }

    /// `make` for `target`, all that V=1, LLVM=1 and ccache ask for.
    fn command(&self, target: Target) -> Command {
        let arch = match target {
            Target::Uml => "um",
            Target::Qemu => &self.project.arch,
        };
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let mut command = Command::new("make");
        command
            .arg("-C")
            .arg(self.source())
            .arg(format!("O=objects-{}", self.label(target)))
            .arg(format!("ARCH={arch}"))
            .arg(format!("-j{cpus}"))
            .args(REPRODUCIBLE);
        command.args(make_options(self.project, &self.rust));
        self.rust.set_environment(&mut command);
        command
            .env_remove("KDIR")
            .env_remove("O")
            .env_remove("ARCH")
            .env_remove("LLVM")
            .env_remove("V");
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        command
    }

    /// allnoconfig plus the fragments; every option that was asked for is then
    /// looked up, for Kconfig drops silently what a dependency forbids.
    fn configure(&self, target: Target, config: &str) -> Result<()> {
        let objects = self.objects(target);
        fs::create_dir_all(&objects)
            .with_context(|| format!("cannot make {}", objects.display()))?;
        let wanted = objects.join("wanted.config");
        fs::write(&wanted, config).with_context(|| format!("cannot write {}", wanted.display()))?;
        let mut command = self.command(target);
        command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &wanted);
        let log = self.project.log(&format!("config-{}", self.label(target)));
        process::run_logged(&mut command, &log)?;
        let got = fs::read_to_string(objects.join(".config")).context("make wrote no .config")?;
        let lost = lost_options(config, &got);
        if !lost.is_empty() {
            let rust = if lost.iter().any(|option| asks_for_rust(option)) {
                self.no_rust(target)
            } else {
                String::new()
            };
            bail!(
                "the configuration for {} lacks what its fragments in {} ask for; a dependency is \
                 not met or the option is gone from this kernel:\n    {}{rust}",
                self.label(target),
                self.project.harness().join("configs").display(),
                lost.join("\n    ")
            );
        }
        Ok(())
    }

    /// What the kernel itself says about the Rust toolchain.
    fn no_rust(&self, target: Target) -> String {
        let log = self.project.log("rustavailable");
        let mut command = self.command(target);
        let asked = process::status_logged(command.arg("rustavailable"), &log);
        let said = match asked {
            Ok(_) => process::tail(&log, 20),
            Err(error) => format!("{error:#}"),
        };
        format!(
            "\nRust: {}\n`make rustavailable` says ({}):\n{said}",
            self.rust.describe(),
            log.display()
        )
    }

    /// Builds with the number of objects as progress.
    fn make(&self, target: Target, name: &str, step: &ui::Step) -> Result<()> {
        let log = self
            .project
            .log(&format!("build-{}-{}", self.label(target), safe(name)));
        fs::create_dir_all(log.parent().expect("a log is in a folder"))?;
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = self.command(target);
        command.arg(self.file(target));
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let mut make = Group::spawn(&mut command)?;
        let status = loop {
            if let Some(status) = make.wait(Some(Duration::from_millis(500)))? {
                break status;
            }
            step.tick(&progress(&fs::read(&log).unwrap_or_default()));
        };
        if !status.success() {
            bail!(
                "the {name} kernel for {} does not build ({status}):\n{}\nthe whole log: {}",
                self.label(target),
                first_errors(&log),
                log.display()
            );
        }
        Ok(())
    }

    /// Stores the finished kernel.
    fn keep(&self, target: Target, store: &Path) -> Result<()> {
        let objects = self.objects(target);
        let from = match target {
            Target::Uml => objects.join("linux"),
            Target::Qemu => objects
                .join("arch")
                .join(&self.project.arch)
                .join("boot/bzImage"),
        };
        keep(
            &[
                (from, self.file(target)),
                (objects.join(".config"), "config"),
                (objects.join("modules.builtin"), "modules.builtin"),
            ],
            store,
        )
    }
}

/// The folder of a finished kernel, named by all that goes into it.
pub fn store(project: &Project, commit: &str, label: &str, config: &str) -> Result<PathBuf> {
    let compiler = compiler(project)?;
    let mut hasher = DefaultHasher::new();
    let asked = (config, compiler, &project.arch, project.llvm, REPRODUCIBLE);
    asked.hash(&mut hasher);
    let name = format!("{commit:.16}-{label}-{:016x}", hasher.finish());
    Ok(project.build.join("kernels").join(name))
}

/// Copies files, each under its name, into the new folder `store`: all or none.
pub fn keep(files: &[(PathBuf, &str)], store: &Path) -> Result<()> {
    let parent = store.parent().expect("the store is below the build folder");
    let temporary = parent.join(format!(".{}", std::process::id()));
    let copy = || -> std::io::Result<()> {
        fs::create_dir_all(&temporary)?;
        for (from, name) in files {
            fs::copy(from, temporary.join(name))?;
        }
        if store.exists() {
            fs::remove_dir_all(store)?;
        }
        fs::rename(&temporary, store)
    };
    copy().map_err(|error| {
        let _ = fs::remove_dir_all(&temporary);
        let what = format!(
            "cannot store a kernel in {}; is the disk full?",
            store.display()
        );
        anyhow::Error::new(error).context(what)
    })
}

/// True if a configuration asks for Rust.
fn asks_for_rust(config: &str) -> bool {
    config
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("CONFIG_RUST="))
        .is_some_and(|value| value.starts_with('y'))
}

/// What LLVM=1, V=1, ccache and the Rust toolchain mean for make.
pub fn make_options(project: &Project, rust: &Rust) -> Vec<String> {
    let mut options = rust.make_options();
    let compiler = compiler_name(project);
    if project.llvm {
        options.push("LLVM=1".to_string());
    }
    if has_program("ccache") {
        options.push(format!("CC=ccache {compiler}"));
    }
    if project.verbose {
        options.push("V=1".to_string());
    }
    options
}

/// The kernel's build cannot cope with these paths.
fn check_path(build: &Path) -> Result<()> {
    let text = build.display().to_string();
    if text.contains(|letter: char| letter.is_whitespace() || letter == ':') {
        bail!("the kernel cannot be built in `{text}`: make wants no space and no colon; set O=");
    }
    Ok(())
}

fn compiler_name(project: &Project) -> &'static str {
    if project.llvm {
        "clang"
    } else {
        "gcc"
    }
}

/// The compiler's name and version, part of a kernel's identity.
pub fn compiler(project: &Project) -> Result<String> {
    let name = compiler_name(project);
    let version = process::output(Command::new(name).arg("--version")).with_context(|| {
        format!("{name} is needed to build a kernel; `regress setup` installs it")
    })?;
    Ok(version.lines().next().unwrap_or(name).to_string())
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// A file name from a revision.
pub fn safe(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect()
}

/// The options of `wanted` that `got` does not have so.
fn lost_options(wanted: &str, got: &str) -> Vec<String> {
    let parse = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    };
    let got = parse(got);
    parse(wanted)
        .into_iter()
        .filter(|(name, value)| got.get(name).map_or("n", String::as_str) != value)
        .map(|(name, value)| match got.get(&name) {
            Some(other) => format!("{name}={value} (it is {other})"),
            None => format!("{name}={value} (it is not set)"),
        })
        .collect()
}

/// `812 objects, net/core/dev.o`, from make's output so far.
fn progress(log: &[u8]) -> String {
    let log = String::from_utf8_lossy(log);
    let objects: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix("CC ").or(line.strip_prefix("RUSTC ")))
        .collect();
    let last = objects.last().map_or("", |object| object.trim());
    format!("{} objects, {last}", objects.len())
}

/// What the compiler (or the linker) said first.
fn first_errors(log: &Path) -> String {
    const SIGNS: [&str; 4] = [
        "error:",
        "undefined reference",
        "*** ",
        "No such file or directory",
    ];
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| SIGNS.iter().any(|sign| line.contains(sign)))
        .take(6)
        .collect();
    if errors.is_empty() {
        return process::tail(log, 10);
    }
    errors
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_did_not_land_are_found() {
        let wanted = "# why\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=y\nCONFIG_D=n\nCONFIG_E=3\n";
        let got =
            "CONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\nCONFIG_D=y\nCONFIG_E=3\n";
        assert_eq!(
            lost_options(wanted, got),
            ["CONFIG_C=y (it is not set)", "CONFIG_D=n (it is y)"]
        );
    }

    #[test]
    fn progress_counts_objects() {
        assert_eq!(
            progress(b"  CC      a.o\n  AR  b.a\n  CC      net/c.o\n"),
            "2 objects, net/c.o"
        );
        assert_eq!(progress(b"  RUSTC L a.o\n"), "1 objects, L a.o");
    }

    #[test]
    fn the_last_word_on_rust_counts() {
        assert!(asks_for_rust("CONFIG_A=y\nCONFIG_RUST=y\n"));
        assert!(asks_for_rust("CONFIG_RUST=y (it is not set)"));
        assert!(!asks_for_rust("CONFIG_RUST=y\nCONFIG_RUST=n\n"));
        assert!(!asks_for_rust("CONFIG_RUST_OVERFLOW_CHECKS=y\n"));
    }

    #[test]
    fn paths_that_make_refuses_are_refused_first() {
        assert!(check_path(Path::new("/a b")).is_err());
        assert!(check_path(Path::new("/a:b")).is_err());
        assert!(check_path(Path::new("/a-b/c")).is_ok());
    }

    #[test]
    fn the_compiler_speaks_first() {
        let log = std::env::temp_dir().join(format!("regress-errors-{}", std::process::id()));
        fs::write(
            &log,
            "  CC a.o\na.c:3:1: error: expected ;\nmake: *** [a.o] Error 1\n",
        )
        .unwrap();
        assert!(first_errors(&log).starts_with("    a.c:3:1: error: expected ;"));
        fs::remove_file(&log).unwrap();
    }
}
