//! A client that dies at one of its writes: just before the server hears of it, or just after the server did it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Method, Request};
use kube::client::Body;

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The server does not hear of the write.
    BeforeTheWrite,
    /// The server has done it, and nobody hears the answer.
    AfterTheWrite,
}

/// What all clients of one process share: after so many writes nothing is answered any more.
#[derive(Clone)]
pub struct Fuse {
    left: Arc<AtomicUsize>,
    blown: Arc<AtomicBool>,
    moment: Moment,
}

impl Fuse {
    /// At the write of that number, from 1.
    pub fn new(writes: usize, moment: Moment) -> Self {
        Self { left: Arc::new(AtomicUsize::new(writes)), blown: Arc::default(), moment }
    }

    /// Whether the process has died.
    pub fn is_blown(&self) -> bool {
        self.blown.load(Ordering::Relaxed)
    }

    /// A client of the process.
    pub fn on(&self, client: kube::Client) -> kube::Client {
        let fuse = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (fuse, client) = (fuse.clone(), client.clone());
            async move {
                if fuse.is_blown() {
                    std::future::pending::<()>().await;
                }
                let last = request.method() != Method::GET && fuse.left.fetch_sub(1, Ordering::Relaxed) == 1;
                if last {
                    fuse.blown.store(true, Ordering::Relaxed);
                    if fuse.moment == Moment::AfterTheWrite {
                        let _ = client.send(request).await;
                    }
                    return std::future::pending().await;
                }
                client.send(request).await
            }
        });
        kube::Client::new(service, "default")
    }
}
