//! What somebody has written, by the lines of an audit log.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// An audit log that is read on from where it was read to, also when it is put aside meanwhile, as `audit.log.1` and so on.
pub(super) struct Audit {
    path: PathBuf,
    user: &'static str,
    /// The file that was read last.
    file: Option<BufReader<File>>,
    /// The beginning of a line whose rest comes later.
    line: String,
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
        Self { path, user, file: None, line: String::new() }
    }

    /// What was written since the last call.
    pub(super) fn read(&mut self) -> anyhow::Result<Writes> {
        let mut writes = Writes::default();
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        loop {
            // Whoever puts it aside writes no more to it after that, so this is looked at first.
            let next = self.after(file.get_ref())?;
            self.read_on(&mut file, &mut writes)?;
            match next {
                Some(next) => file = next,
                None => break,
            }
        }
        self.file = Some(file);
        Ok(writes)
    }

    /// The file that follows one; nothing, if that is the last.
    fn after(&self, file: &File) -> anyhow::Result<Option<BufReader<File>>> {
        let this = file.metadata()?.ino();
        let mut newer = self.path.clone();
        for number in 1.. {
            let found = std::fs::metadata(&newer).with_context(|| {
                format!("{} was put aside, and cannot be found any more", self.path.display())
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

    fn read_on(&mut self, file: &mut BufReader<File>, writes: &mut Writes) -> anyhow::Result<()> {
        while file.read_line(&mut self.line)? > 0 && self.line.ends_with('\n') {
            let line: Line =
                serde_json::from_str(&self.line).context("a line of the audit log makes no sense")?;
            self.count(&line, writes);
            self.line.clear();
        }
        Ok(())
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
    fn writes_of_one_user_are_counted_as_they_come() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut audit = Audit::new(file.path().to_owned(), "hub");
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

    #[test]
    fn nothing_is_lost_when_the_log_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let numbered = |number: usize| directory.path().join(format!("audit.log.{number}"));
        let one = || line("hub", "patch", "manifestworks", 200);
        std::fs::write(&path, one()).unwrap();
        let mut audit = Audit::new(path.clone(), "hub");
        assert_eq!(audit.read().unwrap().of_clusters, 1);
        // More was written to it, then it was put aside, twice.
        std::fs::write(&path, one().repeat(3)).unwrap();
        std::fs::rename(&path, numbered(2)).unwrap();
        std::fs::write(numbered(1), one().repeat(10)).unwrap();
        std::fs::write(&path, one().repeat(100)).unwrap();
        assert_eq!(audit.read().unwrap().of_clusters, 112);
        assert_eq!(audit.read().unwrap().of_clusters, 0);
        std::fs::write(directory.path().join("other"), one()).unwrap();
        std::fs::rename(directory.path().join("other"), &path).unwrap();
        let told = audit.read().unwrap_err().to_string();
        assert!(told.contains("put aside"), "{told}");
    }
}
