// SPDX-License-Identifier: GPL-2.0
//! The toolchain for Rust in the kernel: a rustc with the sources of its
//! library, bindgen, and the libclang that bindgen loads.
//!
//! The first of each that is good enough is taken; `regress setup` installs
//! what is not there. The last word has the kernel's own `make rustavailable`.

use crate::process;
use crate::project::Project;
use anyhow::{bail, Result};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the kernel asks for (scripts/min-tool-version.sh): the set-up comes
/// before the kernel's source.
const RUSTC: Version = [1, 85, 0];
const BINDGEN: Version = [0, 71, 1];

/// LLVM's versions whose libclang serves. From 22 on bindgen 0.71 leaves out
/// fields (rust_is_available_bindgen_libclang_22.h).
const LIBCLANG: std::ops::Range<u32> = 17..22;

type Version = [u32; 3];

/// A piece of the toolchain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Rustc,
    Bindgen,
    Libclang,
}

impl Part {
    /// What is missing if it is.
    pub fn describe(self) -> String {
        let from = |[major, minor, patch]: Version| format!("{major}.{minor}.{patch}");
        match self {
            Part::Rustc => format!(
                "rustc {} or newer with the sources of its library (RUST_LIB_SRC, if they are \
                 elsewhere than rustc expects)",
                from(RUSTC)
            ),
            Part::Bindgen => format!("bindgen {} or newer", from(BINDGEN)),
            Part::Libclang => format!(
                "libclang {} to {} (LIBCLANG_PATH, if it is not in /usr/lib/llvm-N/lib)",
                LIBCLANG.start,
                LIBCLANG.end - 1
            ),
        }
    }

    /// True if a package of this version will do.
    pub fn is_new_enough(self, text: &str) -> bool {
        let minimum = match self {
            Part::Rustc => RUSTC,
            Part::Bindgen => BINDGEN,
            Part::Libclang => return true,
        };
        version(text).is_some_and(|version| version >= minimum)
    }
}

/// What this machine has of the toolchain.
#[derive(Debug)]
pub struct Rust {
    rustc: Option<Compiler>,
    bindgen: Option<Program>,
    /// Folder of libclang.
    libclang: Option<PathBuf>,
}

#[derive(Debug)]
struct Compiler {
    program: Program,
    /// Sources of its library.
    library: PathBuf,
}

#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// The line that it says of itself.
    version: String,
}

impl Rust {
    pub fn look(project: &Project) -> Self {
        let own = std::iter::once(own_bindgen(project));
        Rust {
            rustc: in_path("rustc").find_map(|path| Compiler::new(path, Part::Rustc)),
            bindgen: own
                .chain(in_path("bindgen"))
                .find_map(|path| Program::new(path, Part::Bindgen)),
            libclang: libclang(),
        }
    }

    pub fn has(&self, part: Part) -> bool {
        match part {
            Part::Rustc => self.rustc.is_some(),
            Part::Bindgen => self.bindgen.is_some(),
            Part::Libclang => self.libclang.is_some(),
        }
    }

    /// Nothing if all is there, else an error that says what is not.
    pub fn check(&self) -> Result<()> {
        let missing: Vec<String> = [Part::Rustc, Part::Bindgen, Part::Libclang]
            .into_iter()
            .filter(|&part| !self.has(part))
            .map(|part| format!("\n    {}", part.describe()))
            .collect();
        if !missing.is_empty() {
            bail!(
                "Rust in the kernel needs what is not here; `regress setup` installs it:{}",
                missing.concat()
            );
        }
        Ok(())
    }

    /// Where a kernel's build finds the pieces: make's variables.
    pub fn make_options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(Compiler { program, .. }) = &self.rustc {
            let rustc = program.path.display();
            options.extend([format!("RUSTC={rustc}"), format!("HOSTRUSTC={rustc}")]);
            let rustdoc = program.path.with_file_name("rustdoc");
            options.push(format!("RUSTDOC={}", rustdoc.display()));
        }
        let bindgen = self.bindgen.iter();
        options.extend(bindgen.map(|program| format!("BINDGEN={}", program.path.display())));
        options
    }

    /// The same: what goes through the environment.
    pub fn set_environment(&self, make: &mut Command) {
        make.envs(
            self.rustc
                .iter()
                .map(|rustc| ("RUST_LIB_SRC", &rustc.library)),
        );
        make.envs(self.libclang.iter().map(|folder| ("LIBCLANG_PATH", folder)));
    }

    /// One line for people; part of a kernel's identity, too.
    pub fn describe(&self) -> String {
        let compiler = self.rustc.iter().map(|rustc| &rustc.program);
        let mut parts: Vec<String> = compiler
            .chain(&self.bindgen)
            .map(|program| format!("{} ({})", program.version, program.path.display()))
            .collect();
        let libclang = self.libclang.iter();
        parts.extend(libclang.map(|folder| format!("libclang in {}", folder.display())));
        parts.join(", ")
    }
}

impl Program {
    fn new(path: PathBuf, part: Part) -> Option<Self> {
        let text = process::output(Command::new(&path).arg("--version")).ok()?;
        let version = text.lines().next()?.to_string();
        part.is_new_enough(&version)
            .then_some(Program { path, version })
    }
}

impl Compiler {
    fn new(path: PathBuf, part: Part) -> Option<Self> {
        let program = Program::new(path, part)?;
        let library = match given("RUST_LIB_SRC") {
            Some(folder) => PathBuf::from(folder),
            None => {
                let mut rustc = Command::new(&program.path);
                let sysroot = process::output(rustc.args(["--print", "sysroot"])).ok()?;
                Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library")
            }
        };
        let fits = library.join("core/src/lib.rs").is_file() && matches(&library, &program.version);
        fits.then_some(Compiler { program, library })
    }
}

/// False if the sources say that they are another version's; rustup's say nothing.
fn matches(library: &Path, rustc: &str) -> bool {
    let known = std::fs::read_to_string(library.join("../src/version"));
    known.map_or(true, |known| version(&known) == version(rustc))
}

/// A variable of the environment that is not empty.
fn given(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// `name` in every folder of PATH, Debian's own last.
fn in_path(name: &'static str) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/bin")])
        .collect();
    let files = folders.into_iter().map(move |folder| folder.join(name));
    files.filter(|file| file.is_file())
}

/// What the user names, else the newest of Debian's that serves.
fn libclang() -> Option<PathBuf> {
    if let Some(folder) = given("LIBCLANG_PATH") {
        return Some(folder.into());
    }
    let folder = |version| PathBuf::from(format!("/usr/lib/llvm-{version}/lib"));
    LIBCLANG
        .rev()
        .map(folder)
        .find(|folder| has_libclang(folder))
}

fn has_libclang(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // libclang.so.1 and libclang-19.so.1, not libclang-cpp.so.19
    let is_libclang = |name: &str| {
        let rest = name.strip_prefix("libclang").unwrap_or_default();
        rest.trim_start_matches(|letter: char| letter == '-' || letter.is_ascii_digit())
            .starts_with(".so")
    };
    entries
        .map(|entry| entry.file_name())
        .any(|name| is_libclang(&name.to_string_lossy()))
}

/// The bindgen that `install_bindgen` built.
fn own_bindgen(project: &Project) -> PathBuf {
    project.build.join("tools/bin/bindgen")
}

/// Builds bindgen where apt has none that is new enough. Unoptimised, for that
/// takes a quarter of the time, and a kernel waits some seconds longer for it.
pub fn install_bindgen(project: &Project) -> Result<()> {
    let tools = project.build.join("tools");
    let [major, minor, patch] = BINDGEN;
    let mut cargo = Command::new("cargo");
    cargo
        .args(["install", "bindgen-cli", "--locked"])
        .args(["--version", &format!("{major}.{minor}.{patch}")])
        .args(["--no-default-features", "--features", "runtime"])
        .arg("--root")
        .arg(&tools)
        .arg("--target-dir")
        .arg(tools.join("target"))
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", "false");
    process::run_logged(&mut cargo, &project.log("bindgen"))?;
    crate::git::remove_dir(&tools.join("target"))
}

/// The first version number in `text`: `rustc 1.96.0 (...)`, `1.63.0+dfsg1-2`.
fn version(text: &str) -> Option<Version> {
    let word = text
        .split_whitespace()
        .find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))?;
    let end = word.find(|letter: char| letter != '.' && !letter.is_ascii_digit());
    let mut numbers = word[..end.unwrap_or(word.len())].split('.');
    let mut next = || numbers.next().map_or(Some(0), |number| number.parse().ok());
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("regress-rust-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            fs::create_dir_all(&dir).unwrap();
            Folder(dir)
        }

        fn write(&self, path: &str, text: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("rustc 1.96.0 (ac68 2026-05-25)"), Some([1, 96, 0]));
        assert_eq!(version("1.63.0+dfsg1-2"), Some([1, 63, 0]));
        assert_eq!(version("1.85"), Some([1, 85, 0]));
        assert_eq!(version("(none)"), None);
        assert!(Part::Bindgen.is_new_enough("0.71.1-6"));
        assert!(!Part::Bindgen.is_new_enough("0.60.1-2+b2"));
        assert!(Part::Rustc.is_new_enough("1.100.0"));
    }

    #[test]
    fn sources_of_another_version_do_not_match() {
        let folder = Folder::new("sources");
        let library = folder.0.join("library");
        fs::create_dir_all(&library).unwrap();
        assert!(matches(&library, "rustc 1.95.0 (x)"), "nothing is said");
        folder.write("src/version", "1.96.0\n");
        assert!(matches(&library, "rustc 1.96.0 (x)"));
        assert!(!matches(&library, "rustc 1.95.0 (x)"));
    }

    #[test]
    fn libclang_is_not_the_cpp_library() {
        let folder = Folder::new("libclang");
        folder.write("libclang-cpp.so.19", "");
        assert!(!has_libclang(&folder.0));
        folder.write("libclang-19.so.1", "");
        assert!(has_libclang(&folder.0));
    }

    #[test]
    fn what_is_missing_is_named() {
        let program = |path: &str| Program {
            path: path.into(),
            version: "rustc 1.96.0".into(),
        };
        let mut rust = Rust {
            rustc: Some(Compiler {
                program: program("/a/rustc"),
                library: "/l".into(),
            }),
            bindgen: None,
            libclang: None,
        };
        let error = rust.check().unwrap_err().to_string();
        assert!(error.contains("bindgen 0.71.1") && error.contains("LIBCLANG_PATH"));
        assert!(!error.contains("RUST_LIB_SRC"));
        rust.bindgen = Some(program("/b/bindgen"));
        rust.libclang = Some("/c".into());
        rust.check().unwrap();
        assert_eq!(
            rust.make_options(),
            [
                "RUSTC=/a/rustc",
                "HOSTRUSTC=/a/rustc",
                "RUSTDOC=/a/rustdoc",
                "BINDGEN=/b/bindgen"
            ]
        );
        let mut make = Command::new("make");
        rust.set_environment(&mut make);
        let environment: Vec<_> = make.get_envs().map(|(name, _)| name).collect();
        assert_eq!(environment, ["LIBCLANG_PATH", "RUST_LIB_SRC"]);
    }
}
