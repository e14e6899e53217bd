//! The wire between the fleet API and its PostgreSQL, which can be cut and mended: a proxy from a TCP port to the socket of
//! the server.

use std::net::SocketAddr;
use std::path::PathBuf;

use bellwether_testkit::postgres::Postgres;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) struct Wire {
    url: String,
    address: SocketAddr,
    socket: PathBuf,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Wire {
    /// Must be called within a runtime, on which the wire lives.
    pub(crate) fn to(database: &Postgres) -> Self {
        let (_, place) = database.url().split_once('@').unwrap();
        let (dir, name) = place.split_once('/').unwrap();
        let socket = PathBuf::from(dir.replace("%2F", "/")).join(".s.PGSQL.5432");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let url = format!("postgres://postgres@{address}/{name}?sslmode=disable");
        let wire = Self { url, address, socket, running: Mutex::default() };
        wire.mend();
        wire
    }

    /// Where the API finds the database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Breaks every connection, and lets no new one through.
    pub(crate) fn cut(&self) {
        if let Some(running) = self.running.lock().take() {
            running.abort();
        }
    }

    /// Lets new connections through.
    pub(crate) fn mend(&self) {
        let mut running = self.running.lock();
        if running.is_none() {
            *running = Some(tokio::spawn(carry(self.address, self.socket.clone())));
        }
    }
}

/// Connections end with this.
async fn carry(address: SocketAddr, socket: PathBuf) {
    // The port of a wire that was just cut may take a moment to be free.
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(join(client, socket.clone()));
    }
}

async fn join(mut client: TcpStream, socket: PathBuf) {
    // Like the socket, which holds nothing back either.
    let _ = client.set_nodelay(true);
    if let Ok(mut server) = UnixStream::connect(socket).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
