// SPDX-License-Identifier: GPL-2.0
//! `regress boot`: a root shell, or one command, in a kernel of the tree.

use crate::bench::Bench;
use crate::build::{safe, Builder, Target};
use crate::case::Lab;
use crate::cli::{BootArgs, LabChoice};
use crate::lab::{Ending, Job, Ran};
use crate::project::Project;
use crate::tree;
use crate::ui;
use anyhow::{bail, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

/// As good as no timeout.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// `regress boot`: the exit status is the command's.
pub fn command(project: &Project, args: &BootArgs) -> Result<ExitCode> {
    let assembled = tree::kernels(project)?;
    let builder = Builder::new(project, &assembled, args.debug);
    let images = builder.images(&args.kernel, &[Target::from(args.lab)])?;
    let [image] = images.as_slice() else {
        bail!("one guest boots one kernel: say --kernel base or --kernel patched");
    };
    let bench = Bench::new(project, &assembled)?;
    let lab = match (args.lab, args.virtual_time) {
        (LabChoice::Qemu, _) => Lab::Qemu,
        (LabChoice::Uml, true) => Lab::Uml,
        (LabChoice::Uml, false) => Lab::UmlRealtime,
    };
    let dir = format!("boot/{}-{}", std::process::id(), safe(&image.kernel.name));
    let mut job = bench.selftest_job(lab, image, "net/lib.sh", &[], Path::new(&dir));
    job.parameters = args.parameters.clone();
    job.timeout = args.timeout.map_or(YEAR, Duration::from_secs);
    bench.set_accel(std::iter::once(&mut job))?;
    let ran = if args.command.is_empty() {
        job.argv = ["bash", "--norc", "-i"].map(String::from).to_vec();
        job.env.push((
            "PS1".into(),
            format!("[{} {lab}] \\w # ", image.kernel.name),
        ));
        job.env.push((
            "TERM".into(),
            std::env::var("TERM").unwrap_or_else(|_| "vt100".into()),
        ));
        ui::note(&format!(
            "a root shell in the {} kernel; this machine's files are read-only, /tmp is the guest's own;\n      \
             leave with `exit` or Ctrl-D; if the guest hangs, `kill {}` from another terminal",
            image.kernel.name,
            std::process::id()
        ));
        job.run_on_terminal()?
    } else {
        job.argv = args.command.clone();
        run_shown(&job)?
    };
    finish(&job, &ran)
}

fn finish(job: &Job, ran: &Ran) -> Result<ExitCode> {
    match ran.ending {
        Ending::Exit(status) => {
            let _ = std::fs::remove_dir_all(&job.dir);
            Ok(ExitCode::from(status.clamp(0, 255) as u8))
        }
        _ => bail!("{}", ran.details()),
    }
}

/// Runs the job and shows its output as it comes.
fn run_shown(job: &Job) -> Result<Ran> {
    std::thread::scope(|scope| {
        let (done, end) = channel::<()>();
        scope.spawn(move || {
            let mut file = None;
            loop {
                let last =
                    end.recv_timeout(Duration::from_millis(100)) != Err(RecvTimeoutError::Timeout);
                if file.is_none() {
                    file = File::open(job.output()).ok();
                }
                if let Some(file) = &mut file {
                    show(file);
                }
                if last {
                    return;
                }
            }
        });
        let ran = job.run();
        drop(done);
        ran
    })
}

/// Copies what was added to `file` to the standard output.
fn show(file: &mut File) {
    let mut new = Vec::new();
    if file.read_to_end(&mut new).is_ok() {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(&new).and_then(|()| stdout.flush());
    }
}
