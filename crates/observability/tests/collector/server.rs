//! An HTTP server whose answers a test chooses, also those that break the protocol.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The method, path and query.
    pub(crate) line: String,
    /// The headers in lower case, a line each.
    pub(crate) headers: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Responds with a status, a header and a body.
    Respond(u16, &'static str, String),
    /// Responds without a length, and ends the response by closing the connection.
    Stream(String),
    /// Repeats a text without end.
    Endless(&'static str),
    /// Announces a response of this length, and sends nothing of it.
    Announce(u64),
    /// Begins a response and closes the connection before its end.
    CutOff(&'static str),
    /// Does not answer.
    Hang,
    /// Closes the connection with a reset.
    Reset,
}

impl Answer {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::Respond(200, "", body.into())
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Respond(status, "", "why it was rejected\n".to_owned())
    }
}

type Choose = Box<dyn Fn(usize, &Request) -> Answer + Send + Sync>;

/// A running server. It answers by a function of the number of the request, from 0, and the request.
pub(crate) struct Server {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    requests: Mutex<Vec<Request>>,
    choose: Mutex<Choose>,
}

impl Server {
    pub(crate) async fn start(choose: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(None, choose).await
    }

    pub(crate) async fn start_tls(
        tls: TlsAcceptor,
        choose: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(tls), choose).await
    }

    async fn serve(
        tls: Option<TlsAcceptor>,
        choose: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { requests: Mutex::default(), choose: Mutex::new(Box::new(choose)) });
        let scheme = if tls.is_some() { "https" } else { "http" };
        tokio::spawn(accept(listener, tls, shared.clone()));
        Self { address, scheme, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().clone()
    }

    /// Changes the answers from now on.
    pub(crate) fn answer(&self, choose: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) {
        *self.shared.choose.lock() = Box::new(choose);
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (tls, shared) = (tls.clone(), shared.clone());
        tokio::spawn(async move {
            let mut stream = stream;
            match tls {
                Some(tls) => {
                    if let Ok(mut stream) = tls.accept(stream).await {
                        let _ = handle(&mut stream, &shared).await;
                    }
                }
                None => {
                    if handle(&mut stream, &shared).await.is_ok_and(|end| end == End::Reset) {
                        stream.set_zero_linger().unwrap();
                    }
                }
            }
        });
    }
}

/// How a connection ends.
#[derive(PartialEq)]
enum End {
    Close,
    Reset,
}

async fn handle(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), shared: &Shared) -> std::io::Result<End> {
    let mut received = Vec::new();
    let head = loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(End::Close);
        }
    };
    let text = String::from_utf8_lossy(&received[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n").unwrap();
    let headers = headers.to_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    while received.len() < head + length.unwrap_or(0) {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(End::Close);
        }
    }
    let request = Request { line: line.to_owned(), headers, body: received.split_off(head) };
    let number = {
        let mut requests = shared.requests.lock();
        requests.push(request.clone());
        requests.len() - 1
    };
    let answer = shared.choose.lock()(number, &request);
    match answer {
        Answer::Respond(status, header, body) => {
            let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} Status\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            stream.shutdown().await?;
            Ok(End::Close)
        }
        Answer::Stream(body) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            stream.write_all(body.as_bytes()).await?;
            stream.shutdown().await?;
            Ok(End::Close)
        }
        Answer::Endless(text) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            let block = text.repeat(65_536 / text.len());
            loop {
                stream.write_all(block.as_bytes()).await?;
            }
        }
        Answer::Announce(length) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            std::future::pending().await
        }
        Answer::CutOff(body) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await?;
            stream.write_all(body.as_bytes()).await?;
            stream.shutdown().await?;
            Ok(End::Close)
        }
        Answer::Hang => std::future::pending().await,
        Answer::Reset => Ok(End::Reset),
    }
}
