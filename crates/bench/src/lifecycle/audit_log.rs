//! Counts the writes of a user in an audit log.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// Reads an audit log incrementally, also across rotations to `audit.log.1` and so on.
pub(super) struct AuditLog {
    path: PathBuf,
    user: &'static str,
    /// The file that is read.
    file: Option<BufReader<File>>,
    /// The beginning of a line that is not written completely yet.
    line: String,
}

/// The number of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    /// Successful writes of ManagedClusterAddOns and ManifestWorks.
    pub(super) succeeded: usize,
    /// Writes of them that failed with a conflict.
    pub(super) conflicts: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    user: User,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectReference {
    #[serde(default)]
    resource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: u16,
}

impl AuditLog {
    pub(super) fn new(path: PathBuf, user: &'static str) -> Self {
        Self { path, user, file: None, line: String::new() }
    }

    /// Counts the writes since the last call.
    pub(super) fn read(&mut self) -> anyhow::Result<Writes> {
        let mut writes = Writes::default();
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        loop {
            // A rotated file is not written any more: look for the next file before reading this one to its end.
            let next = self.next_file(file.get_ref())?;
            self.read_entries(&mut file, &mut writes)?;
            match next {
                Some(next) => file = next,
                None => break,
            }
        }
        self.file = Some(file);
        Ok(writes)
    }

    /// Opens the file that follows a rotated one. It is `None` for the current file.
    fn next_file(&self, file: &File) -> anyhow::Result<Option<BufReader<File>>> {
        let this = file.metadata()?.ino();
        let mut newer = self.path.clone();
        for number in 1.. {
            let found = std::fs::metadata(&newer).with_context(|| {
                format!("{} was rotated, and the old file does not exist any more", self.path.display())
            })?;
            if found.ino() == this {
                break;
            }
            let older = PathBuf::from(format!("{}.{number}", self.path.display()));
            if std::fs::metadata(&older).is_ok_and(|older| older.ino() == this) {
                return open(&newer).map(Some);
            }
            newer = older;
        }
        Ok(None)
    }

    fn read_entries(&mut self, file: &mut BufReader<File>, writes: &mut Writes) -> anyhow::Result<()> {
        while file.read_line(&mut self.line)? > 0 && self.line.ends_with('\n') {
            let entry: Entry =
                serde_json::from_str(&self.line).context("a line of the audit log is invalid")?;
            self.count(&entry, writes);
            self.line.clear();
        }
        Ok(())
    }

    fn count(&self, entry: &Entry, writes: &mut Writes) {
        let resource = entry.object_ref.as_ref().map(|object| object.resource.as_str());
        let counts = entry.user.username == self.user
            && matches!(entry.verb.as_str(), "create" | "update" | "patch" | "delete")
            && matches!(resource, Some("managedclusteraddons" | "manifestworks"));
        match entry.response_status.as_ref().map(|status| status.code) {
            Some(409) if counts => writes.conflicts += 1,
            Some(200..=299) if counts => writes.succeeded += 1,
            _ => {}
        }
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read the audit log {}", path.display()))?;
    Ok(BufReader::new(file))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn line(user: &str, verb: &str, resource: &str, code: u16) -> String {
        format!(
            r#"{{"verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":"{resource}"}},"responseStatus":{{"code":{code}}}}}"#
        ) + "\n"
    }

    #[test]
    fn writes_of_one_user_are_counted_incrementally() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut audit = AuditLog::new(file.path().to_owned(), "hub");
        let lines = [
            line("hub", "create", "manifestworks", 201),
            line("hub", "patch", "managedclusteraddons", 200),
            line("hub", "patch", "managedclusteraddons", 409),
            line("hub", "list", "manifestworks", 200),
            line("hub", "patch", "placements", 200),
            line("agent", "patch", "manifestworks", 200),
        ];
        let later = line("hub", "delete", "manifestworks", 200);
        let (now, rest) = later.split_at(20);
        write!(file, "{}{now}", lines.concat()).unwrap();
        assert_eq!(audit.read().unwrap(), Writes { succeeded: 2, conflicts: 1 });
        write!(file, "{rest}").unwrap();
        assert_eq!(audit.read().unwrap(), Writes { succeeded: 1, conflicts: 0 });
    }

    #[test]
    fn no_write_is_lost_when_the_log_is_rotated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let numbered = |number: usize| directory.path().join(format!("audit.log.{number}"));
        let one = || line("hub", "patch", "manifestworks", 200);
        std::fs::write(&path, one()).unwrap();
        let mut audit = AuditLog::new(path.clone(), "hub");
        assert_eq!(audit.read().unwrap().succeeded, 1);
        // More lines are written, then the log is rotated twice.
        std::fs::write(&path, one().repeat(3)).unwrap();
        std::fs::rename(&path, numbered(2)).unwrap();
        std::fs::write(numbered(1), one().repeat(10)).unwrap();
        std::fs::write(&path, one().repeat(100)).unwrap();
        assert_eq!(audit.read().unwrap().succeeded, 112);
        assert_eq!(audit.read().unwrap().succeeded, 0);
        std::fs::write(directory.path().join("other"), one()).unwrap();
        std::fs::rename(directory.path().join("other"), &path).unwrap();
        let error = audit.read().unwrap_err().to_string();
        assert!(error.contains("was rotated"), "{error}");
    }
}
