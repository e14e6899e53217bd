//! A proxy from a TCP port to the socket of PostgreSQL, by which tests interrupt and restore the connections of the fleet API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bellwether_testkit::postgres::Postgres;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::server::WAIT_TIMEOUT;

pub(crate) struct PostgresProxy {
    url: String,
    address: SocketAddr,
    socket: PathBuf,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresProxy {
    /// Starts a proxy. It must be called within a runtime, on which the proxy runs.
    pub(crate) fn start(database: &Postgres) -> Self {
        let (_, location) = database.url().split_once('@').unwrap();
        let (dir, name) = location.split_once('/').unwrap();
        let socket = PathBuf::from(dir.replace("%2F", "/")).join(".s.PGSQL.5432");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let url = format!("postgres://postgres@{address}/{name}?sslmode=disable");
        let proxy = Self { url, address, socket, running: Mutex::default() };
        proxy.restore();
        proxy
    }

    /// The URL of the database through the proxy.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Closes all connections, and accepts no new ones.
    pub(crate) fn interrupt(&self) {
        if let Some(running) = self.running.lock().take() {
            running.abort();
        }
    }

    /// Accepts new connections, from when this returns.
    pub(crate) fn restore(&self) {
        let mut running = self.running.lock();
        if running.is_none() {
            let listener = TcpListener::from_std(bind(self.address)).unwrap();
            *running = Some(tokio::spawn(run(listener, self.socket.clone())));
        }
    }
}

/// After an interruption, the port is free when another thread of the runtime has dropped the task that had it.
fn bind(address: SocketAddr) -> std::net::TcpListener {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        match std::net::TcpListener::bind(address) {
            Ok(listener) => {
                listener.set_nonblocking(true).unwrap();
                return listener;
            }
            Err(error) => assert!(Instant::now() < deadline, "{address} is not free: {error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Accepts connections. They end when this task is aborted.
async fn run(listener: TcpListener, socket: PathBuf) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(forward(client, socket.clone()));
    }
}

async fn forward(mut client: TcpStream, socket: PathBuf) {
    // A Unix socket does not delay small packets either.
    let _ = client.set_nodelay(true);
    if let Ok(mut server) = UnixStream::connect(socket).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
