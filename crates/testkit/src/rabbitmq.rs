//! RabbitMQ for tests, from the package of the distribution, on free loopback ports in a temporary directory, with an Erlang port
//! mapper of its own. It stops when it is dropped or the test process exits, even by SIGKILL.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::real::{SWEEP, free_port, guard};

const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The package's script in the path insists on its own user and directories; this one does not.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Runs the server and its port mapper in a session of their own, which is killed as a whole.
const GUARD: &str = r#"log=$1; shift; setsid sh -c "$@" >>"$log" 2>&1 </dev/null & pid=$!; cat >/dev/null; kill -9 -$pid; wait"#;
/// The environment and the start of the server. Its arguments are the directory, the port of the server, that of Erlang's
/// distribution, that of the port mapper, and the program.
const START: &str = r#"
export HOME="$0" RABBITMQ_MNESIA_BASE="$0/mnesia" RABBITMQ_LOG_BASE="$0/logs" RABBITMQ_LOGS=- RABBITMQ_PID_FILE="$0/pid"
export RABBITMQ_NODENAME="bellwether$1@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$1"
export RABBITMQ_DIST_PORT="$2" ERL_EPMD_PORT="$3" ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_ENABLED_PLUGINS_FILE="$0/enabled_plugins" RABBITMQ_CONFIG_FILE="$0/rabbitmq" RABBITMQ_CONF_ENV_FILE="$0/none"
export RABBITMQ_FEATURE_FLAGS_FILE="$0/feature_flags" RABBITMQ_PLUGINS_EXPAND_DIR="$0/plugins"
epmd -port "$3" &
exec "$4"
"#;

/// A RabbitMQ server.
pub struct RabbitMq {
    ports: [u16; 3],
    dir: PathBuf,
    /// Dropping the process closes its standard input, which stops the server.
    server: Option<Child>,
    _sweeper: Child,
}

impl RabbitMq {
    /// Starts a server, and waits until it is ready.
    pub fn start() -> Self {
        let dir =
            tempfile::Builder::new().prefix("bellwether-rabbitmq-").tempdir().expect("a directory").keep();
        std::fs::write(dir.join("enabled_plugins"), "[].").expect("the list of plugins can be written");
        std::fs::write(dir.join("rabbitmq.conf"), "").expect("the configuration can be written");
        let sweeper = guard(SWEEP, &[dir.display().to_string()]);
        let ports = [free_port(), free_port(), free_port()];
        let mut rabbitmq = Self { ports, dir, server: None, _sweeper: sweeper };
        rabbitmq.start_again();
        rabbitmq
    }

    /// The address, such as `amqp://guest:guest@127.0.0.1:5672`.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}", self.ports[0])
    }

    /// Kills the server. Its data and its port stay.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.stdin.take());
            server.wait().expect("the guard of the server ends");
        }
    }

    /// Starts the server after [`kill`](Self::kill), with its data and at its port.
    pub fn start_again(&mut self) {
        assert!(
            Path::new(SERVER).is_file(),
            "RabbitMQ is missing: run `make deps`, or install the package rabbitmq-server"
        );
        let dir = self.dir.display().to_string();
        let log = self.dir.join("log");
        let mut arguments = vec![log.display().to_string(), START.to_owned(), dir];
        arguments.extend(self.ports.map(|port| port.to_string()));
        arguments.push(SERVER.to_owned());
        self.server = Some(guard(GUARD, &arguments));
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.is_ready() {
            assert!(
                Instant::now() < deadline,
                "RabbitMQ was not ready within {START_TIMEOUT:?}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Whether the server answers the greeting of a client.
    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[0])) else { return false };
        let mut answer = [0; 1];
        stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
            && stream.write_all(b"AMQP\x00\x00\x09\x01").is_ok()
            && stream.read_exact(&mut answer).is_ok()
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        self.kill();
    }
}
