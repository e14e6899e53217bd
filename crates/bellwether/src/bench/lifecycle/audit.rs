//! What somebody has written, by the lines of an audit log.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Deserialize;

/// An audit log that is read on from where it was read to.
pub(super) struct Audit {
    path: PathBuf,
    user: &'static str,
    read_to: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    /// To add-ons of clusters and to works.
    pub(super) of_clusters: usize,
    /// Refused because somebody else had written.
    pub(super) conflicts: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    user: User,
    object_ref: Option<Reference>,
    response_status: Option<Answer>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default)]
    resource: String,
}

#[derive(Deserialize)]
struct Answer {
    code: u16,
}

impl Audit {
    pub(super) fn new(path: PathBuf, user: &'static str) -> Self {
        Self { path, user, read_to: 0 }
    }

    /// What was written since the last call.
    pub(super) fn read(&mut self) -> anyhow::Result<Writes> {
        let mut file = File::open(&self.path)
            .with_context(|| format!("cannot read the audit log {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.read_to))?;
        let (mut file, mut line, mut writes) = (BufReader::new(file), String::new(), Writes::default());
        loop {
            line.clear();
            self.read_to += file.read_line(&mut line)? as u64;
            if !line.ends_with('\n') {
                // The rest of it comes later.
                self.read_to -= line.len() as u64;
                return Ok(writes);
            }
            let line: Line = serde_json::from_str(&line).context("a line of the audit log makes no sense")?;
            self.count(&line, &mut writes);
        }
    }

    fn count(&self, line: &Line, writes: &mut Writes) {
        let resource = line.object_ref.as_ref().map(|object| object.resource.as_str());
        let counts = line.user.username == self.user
            && matches!(line.verb.as_str(), "create" | "update" | "patch" | "delete")
            && matches!(resource, Some("managedclusteraddons" | "manifestworks"));
        match line.response_status.as_ref().map(|answer| answer.code) {
            Some(409) if counts => writes.conflicts += 1,
            Some(200..=299) if counts => writes.of_clusters += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn writes_of_one_user_are_counted_as_they_come() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut audit = Audit::new(file.path().to_owned(), "hub");
        let line = |user: &str, verb: &str, resource: &str, code: u16| {
            format!(
                r#"{{"verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":"{resource}"}},"responseStatus":{{"code":{code}}}}}"#
            ) + "\n"
        };
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
        assert_eq!(audit.read().unwrap(), Writes { of_clusters: 2, conflicts: 1 });
        write!(file, "{rest}").unwrap();
        assert_eq!(audit.read().unwrap(), Writes { of_clusters: 1, conflicts: 0 });
    }
}
