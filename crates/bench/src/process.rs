//! Child processes, which end with this process, and their memory and CPU time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

/// How many lines of the log an error shows after a process has ended.
const LOG_LINES: usize = 10;

/// A child process, killed when dropped.
pub(crate) struct Process {
    child: Child,
    program: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts a program. Its output goes to a log file in `dir`.
    pub(crate) fn spawn(program: &Path, arguments: &[String], dir: &Path) -> anyhow::Result<Self> {
        let name = program.file_name().unwrap_or(program.as_os_str());
        let log = dir.join(name).with_extension("log");
        let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, program: program.to_owned(), log })
    }

    /// Returns an error with the end of the log if the process has ended.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n");
        anyhow::bail!("{} ended with {status}:\n{last}", self.program.display())
    }

    /// The CPU time that the process has used.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}; CPU time is measured on Linux only"))?;
        // The fields come after the program's name, which is in parentheses and may contain any character.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
        let ticks =
            fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
    }

    /// The resident memory of the process, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        read_memory(&self.child.id().to_string(), "VmRSS")
    }

    /// The largest resident memory that the process has had so far, in bytes.
    pub(crate) fn peak_bytes(&self) -> anyhow::Result<u64> {
        read_memory(&self.child.id().to_string(), "VmHWM")
    }
}

/// The resident memory of this process, in bytes.
pub(crate) fn own_resident_bytes() -> anyhow::Result<u64> {
    read_memory("self", "VmRSS")
}

/// Reads a field in kilobytes from the status of a process.
fn read_memory(process: &str, field: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}; memory is measured on Linux only"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes: u64 = value
        .unwrap_or_default()
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .with_context(|| format!("{path} has no {field}"))?;
    Ok(kilobytes * 1024)
}

impl Drop for Process {
    fn drop(&mut self) {
        // Wait for its end, so that its directory can be removed afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
