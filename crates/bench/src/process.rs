//! Child processes, which end with this process, and their memory and CPU time.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// How many lines of the log an error shows after a process has ended.
const LOG_LINES: usize = 10;
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the log of a starting process is read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

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

    /// Waits until a role of Bellwether has logged that it is up, and returns its address.
    pub(crate) async fn wait_for_address(&mut self) -> anyhow::Result<SocketAddr> {
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT {
            self.check_running()?;
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(address) = log.lines().find_map(address_in) {
                return Ok(address);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        anyhow::bail!("{} was not up within {START_TIMEOUT:?}", self.program.display())
    }

    /// The ID of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time that the process has used.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        read_cpu_time(&self.child.id().to_string())
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

/// The address in the line of a log that says that a role is up.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, after) = line.split_once(" is up")?.1.split_once("http://")?;
    after.split(['/', ' ']).next()?.parse().ok()
}

/// The CPU time that this process has used.
pub(crate) fn own_cpu_time() -> anyhow::Result<Duration> {
    read_cpu_time("self")
}

/// The resident memory of this process, in bytes.
pub(crate) fn own_resident_bytes() -> anyhow::Result<u64> {
    read_memory("self", "VmRSS")
}

fn read_cpu_time(process: &str) -> anyhow::Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}; CPU time is measured on Linux only"))?;
    // The fields come after the program's name, which is in parentheses and may contain any character.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
}

/// Reads a field in kilobytes from the status of a process.
pub(crate) fn read_memory(process: &str, field: &str) -> anyhow::Result<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_found_in_the_line_that_says_that_a_role_is_up() {
        for (line, expected) in [
            ("The fleet API is up at http://127.0.0.1:80/api/v1.", Some("127.0.0.1:80")),
            ("The sentinel of x is up; http://127.0.0.1:81 has /readyz.", Some("127.0.0.1:81")),
            ("connecting to http://127.0.0.1:82/", None),
            ("The sentinel of x is up; http://127.0", None),
        ] {
            assert_eq!(address_in(line).map(|address| address.to_string()).as_deref(), expected, "{line}");
        }
    }
}
