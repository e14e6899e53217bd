//! PostgreSQL for tests: one server per test process, from the binaries of the distribution, in a temporary
//! directory. It starts with the first database and stops when the process exits, even by SIGKILL. Every
//! caller gets its own database.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::real::guard;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a server as long as standard input is open, then stops it immediately and removes its directory.
const GUARD: &str = r#"dir=$1; shift; "$@" >"$dir/log" 2>&1 </dev/null & pid=$!; cat >/dev/null; kill -QUIT $pid; wait; rm -rf "$dir""#;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A database that no other test uses, empty at first.
pub struct Postgres {
    url: String,
}

impl Postgres {
    /// Creates a database, and starts the server if it is the first one.
    pub fn start() -> Self {
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        SERVER.sql(&format!("CREATE DATABASE {name}"));
        let host = SERVER.dir.display().to_string().replace('/', "%2F");
        Self { url: format!("postgres://postgres@{host}/{name}") }
    }

    /// The URL of the database.
    pub fn url(&self) -> &str {
        &self.url
    }
}

struct Server {
    binaries: PathBuf,
    dir: PathBuf,
    /// Dropping the process closes its standard input, which stops the server.
    _guard: Child,
}

impl Server {
    fn start() -> Self {
        let binaries = binaries();
        let dir =
            tempfile::Builder::new().prefix("bellwether-postgres-").tempdir().expect("a directory").keep();
        let user = User::of_server();
        user.own(&dir);
        let data = dir.join("data");
        let at = |program: &str| binaries.join(program).display().to_string();
        let data_flag = format!("--pgdata={}", data.display());
        let initdb = [at("initdb"), data_flag, "--username=postgres".into(), "--auth=trust".into()];
        let initdb =
            initdb.into_iter().chain(["--encoding=UTF8", "--locale=C", "--no-sync"].map(String::from));
        let command = user.run(initdb.collect());
        let made = run(Command::new(&command[0]).args(&command[1..]).current_dir(&dir));
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));

        let settings = [
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories={}", dir.display()),
            "max_connections=300".into(),
        ];
        let mut server = vec![at("postgres"), "-D".into(), data.display().to_string()];
        server.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        let mut arguments = vec![dir.display().to_string()];
        arguments.extend(user.run(server));
        let server = Self { binaries, dir, _guard: guard(GUARD, &arguments) };
        server.await_ready();
        server
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.join(program));
        command.arg("--host").arg(&self.dir).arg("--username=postgres").current_dir("/");
        command
    }

    fn await_ready(&self) {
        let deadline = Instant::now() + START_TIMEOUT;
        while !run(self.client("pg_isready").arg("--quiet")).status.success() {
            let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(
                Instant::now() < deadline,
                "PostgreSQL was not ready within {START_TIMEOUT:?}\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn sql(&self, sql: &str) {
        let done =
            run(self.client("psql").args(["--no-psqlrc", "--quiet", "--dbname=postgres", "--command", sql]));
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// The user and group that run the server, or `None` for the current user. PostgreSQL refuses to run as root.
struct User(Option<(u32, u32)>);

impl User {
    fn of_server() -> Self {
        let id = run(Command::new("id").arg("-u"));
        if id.stdout.trim_ascii() != b"0" {
            return Self(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let numbers = |name: &str| {
            let fields: Vec<&str> = users.lines().find(|line| line.starts_with(name))?.split(':').collect();
            Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
        };
        let found = numbers("postgres:").or_else(|| numbers("nobody:"));
        Self(Some(found.expect("PostgreSQL does not run as root, and there is no user postgres or nobody")))
    }

    fn own(&self, path: &Path) {
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).expect("the owner of the directory can be changed");
        }
    }

    /// The command line that runs a command as this user.
    fn run(&self, command: Vec<String>) -> Vec<String> {
        let Some((user, group)) = self.0 else { return command };
        let change = [
            "setpriv".into(),
            format!("--reuid={user}"),
            format!("--regid={group}"),
            "--clear-groups".into(),
        ];
        change.into_iter().chain(command).collect()
    }
}

/// The directory of the server's programs. Debian has one for each version, outside of `PATH`.
fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut directories: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    directories.sort();
    directories.reverse();
    directories.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let found = directories
        .into_iter()
        .find(|directory| ["initdb", "postgres", "psql"].iter().all(|name| directory.join(name).is_file()));
    found.expect("PostgreSQL is missing: tests on it need initdb, postgres and psql. Run scripts/deps, or install the package postgresql")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}
